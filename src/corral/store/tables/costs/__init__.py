"""
Usage and what it costs, summed by the database.

Called by every writer of instances and orphans, and by the queries of costs. Calls the other tables of the store.
Rule: a span is written in the transaction that records the observation which shows it; sums are exact.
Start with `usage.py`.
"""
