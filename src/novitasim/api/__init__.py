"""
The provider's calls: from a request's fields to a command, and from the result to the provider's JSON.

Called by the simulator's server. Calls `novitasim.world.world`.
Rule: shapes follow the provider's documentation, including its inconsistencies.
Start with `instances.py`.
"""
