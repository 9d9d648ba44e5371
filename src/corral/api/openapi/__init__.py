"""
The OpenAPI document: what fields mean, which errors a route may return, what bodies look like.

Called by the app when it is built. Calls nothing.
Rule: a field or error without a description fails a test.
Start with `document.py`.
"""
