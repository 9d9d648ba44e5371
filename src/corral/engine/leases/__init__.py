"""
Leases: measures instances that may be idle, and applies what a lease decides.

Called by the leader (`sampler.py`), by every reconcile (`lease_reconciler.py`) and by a periodic job
(`lease_sweep.py`). Calls provider, store and jobs.
Rule: the decision is `domain/leases/decide.py`; nothing is ended here that an ordinary command would not end.
Start with `lease_reconciler.py`.
"""
