"""
What is due: durable background jobs in PostgreSQL.

Called by the engine (to enqueue) and the wiring (to run workers); calls PgQueuer, which only this folder knows.
Rule: a job says "look at this now" and carries an id, never a state; so a lost, late or doubled one is harmless.
Start at `registry.py`, then `worker.py`; `queue.py` enqueues, lists and counts.
"""
