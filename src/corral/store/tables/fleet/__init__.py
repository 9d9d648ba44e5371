"""
Statements over all instances at once: counts and costs, pages, times to ready, and the deletion of old rows.

Called by the queries and the maintenance jobs of the engine. Calls asyncpg.
Rule: every number comes from the tables, so that all processes report the same.
Start with `counts.py`.
"""
