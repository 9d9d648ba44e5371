"""
Leases: how long an instance may run, when it counts as idle, and when it is stopped or deleted for that. Pure.

Called by the reconciler, the sampler, the commands on leases and the views. Calls only other domain modules.
Rule: what is not known counts as activity, and nothing ends without a notice given at least the grace period before.
Start with `lease.py` (the record), then `decide.py` (what next); `idle.py` and `schedule.py` are its two halves.
"""
