"""
Bounded caches with expiry, and the list of the caches there are.

Called by the engine and the API. Calls the clock only.
Rule: a cache never holds the only copy of anything, so any entry may be dropped at any time.
Start with `cache.py`; `registry.py` lists the caches with their times and sizes.
"""
