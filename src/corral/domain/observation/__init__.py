"""
What the provider says about instances, and what follows when it is compared with our records. Pure.

Called by the engine's observer, queries, maintenance and recovery. Calls only other domain modules.
Rule: one answer of the provider never proves that a machine is gone.
Start with `sighting.py` (the provider's words as ours), then `compare.py`.
"""
