"""
The programs inside instances: ports on loopback that answer health checks.

Called by the simulator's server. Calls asyncio.
Rule: what an instance answers follows from its settings and status alone.
Start with `workloads.py`.
"""
