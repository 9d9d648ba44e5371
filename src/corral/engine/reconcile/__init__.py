"""
One reconcile of one instance: read, decide, record, act.

Called by the job worker. Calls the domain's `decide`, the recorder, the provider and the prober.
Rule: the intent is recorded before the act, and no transaction is open during a network call.
Start with `reconciler.py`; `steps/` has one module for each action.
"""
