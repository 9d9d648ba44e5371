"""
The PostgreSQL server: its address, how the embedded one starts and stops, whether it can be used, its schema.

Called by `corral.app` before any session is opened. Calls the operating system and asyncpg.
Rule: a server that this process did not start is never stopped or changed.
Start with `target.py` (the address of a server), then `embedded.py`.
"""
