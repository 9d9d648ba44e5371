"""
Usage and what it costs, summed by the database; budgets.

Called by every writer of instances and orphans, by the queries of costs and by `engine/budgets/`. Calls the other
tables of the store.
Rule: a span is written in the transaction that records the observation which shows it; sums are exact.
Start with `usage.py`.
"""
