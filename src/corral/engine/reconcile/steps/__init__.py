"""
The actions of a reconcile, one module each: create, start, inspect, probe, confirm, stop and delete.

Called by the reconciler through `dispatch.py`. Calls the provider, the prober and the recorder.
Rule: a step changes an instance only by a transition of the domain, and returns it as recorded.
Start with `dispatch.py`; `create.py` sends create calls and `create_outcome.py` records them.
"""
