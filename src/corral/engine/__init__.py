"""
What we do about it: the parts put in order.

Called by the API and by jobs; calls the cloud, the store, the caches and the queue.
Rule: effects are ordered here and nowhere else, and the intent is recorded before the effect.
Start at `catalog.py` for what can be had and where.
"""
