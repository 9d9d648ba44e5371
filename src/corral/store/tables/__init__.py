"""
One module a table: the statements that read and write it.

Called by the engine and jobs, with a connection they opened. Calls `store.sql` and asyncpg.
Rule: a module touches only its own table, except where one statement must be atomic.
Start with `instances.py`.
"""
