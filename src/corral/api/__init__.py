"""
The HTTP API: server, middleware, routes and the OpenAPI document.

Called by `corral.app`. Calls the engine, the job queue and the views.
Rule: a route reads the request, makes one call and returns its response; it decides nothing about instances.
Start with `app.py`; every request passes `http/edge.py` first, every error is written by `http/errors.py`.
"""
