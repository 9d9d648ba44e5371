"""
The programs inside instances: ports on loopback, logs and ssh servers.

Called by the simulator's server. Calls asyncio, aiohttp and, in `ssh_server.py` alone, asyncssh.
Rule: what an instance answers follows from its settings and status alone; no program of the host is ever run.
Start with `workloads.py`.
"""
