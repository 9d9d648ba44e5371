"""
Sessions with PostgreSQL: the pool, driver errors as our errors, locks, the leader's session, notifications.

Called by `corral.app`, the engine and `corral.jobs` for every connection. Calls asyncpg.
Rule: an error of the driver leaves this package only as one of our errors.
Start with `database.py`.
"""
