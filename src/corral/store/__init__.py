"""
What we remember: PostgreSQL, and nothing else.

Called by the engine, the job queue and the wiring; calls the database only.
Rule: SQL stands here (and in `jobs`, for the queue's tables), and no transaction is open during a network call.
Start at `database.py`; `embedded.py` runs a private server when none is named.
"""
