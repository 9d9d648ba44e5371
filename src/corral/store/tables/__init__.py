"""
One module a table: the statements that read and write it.

Called by the engine and jobs, with a connection they opened. Calls `store.sql` and asyncpg.
Rule: a change that shares a transaction with others is a function that returns a `Write` (`sql/combined_statement.py`).
Start with `instances.py`; tables about callers are in `callers/`, statements over the whole fleet in `fleet/`.
"""
