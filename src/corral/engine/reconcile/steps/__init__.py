"""
What a reconcile does about an instance, one module an action.

Called by the reconciler with a ReconcileContext. Calls the provider, the prober and the recorder.
Rule: a step records what came of it; it never chooses a phase by itself.
Start with `dispatch.py`.
"""
