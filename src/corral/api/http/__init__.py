"""
The HTTP server and everything a request passes before and after its route: limits, request ids, bodies, errors.

Called by `corral.app`. Calls uvicorn and the middleware.
Rule: every error leaves in one shape, from `errors.py`.
Start with `edge.py`.
"""
