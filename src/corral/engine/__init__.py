"""
What Corral does: the only layer that calls the provider, the store and the jobs together.

Called by the API and by jobs. Calls the cloud, the store, the caches, the queue and the domain's decisions.
Rule: effects are ordered here and nowhere else, and the intent is recorded before the effect.
Start with `build.py`, which connects the parts; `commands/` records requests, `reconcile/` carries them out.
"""
