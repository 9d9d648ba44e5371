"""
PostgreSQL: the server, sessions with it, and the statements of every table.

Called by the engine, the job queue and `corral.app`; calls the database, and starts the embedded server.
Rule: SQL is written here (and in `jobs`, for the queue's tables), and no transaction is open during a network call.
Start with `session/database.py`; then `tables/instances.py`.
"""
