"""
What we have just been told, kept for a while so as not to ask again.

Called by the engine; calls nothing but the clock.
Rule: a cache is never the only place that knows something, so dropping any of it at any time is always right.
Start at `cache.py`; `book.py` names the caches there are, with their times and sizes.
"""
