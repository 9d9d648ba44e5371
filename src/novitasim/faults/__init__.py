"""
Ways in which the provider fails: which there are, when one applies, and how it is carried out on a connection.

Called by the simulator's server. Calls aiohttp.
Rule: every fault has a name that can be set through the control routes.
Start with `faults.py`.
"""
