"""
Durable background jobs in PostgreSQL.

Called by the engine (to add jobs) and `corral.app` (to run workers); calls PgQueuer, which only this folder imports.
Rule: a job carries an id, never a state; so a lost, late or repeated one is harmless.
Start with `registry.py`, then `worker.py`; `queue.py` adds, lists and counts jobs.
"""
