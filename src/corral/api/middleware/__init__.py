"""
What surrounds routes: authentication, request limit, audit, idempotency keys, response cache.

Called by `http/edge.py` and the app. Calls the engine.
Rule: each module does one thing to a request and knows nothing of the others.
Start with `auth.py`.
"""
