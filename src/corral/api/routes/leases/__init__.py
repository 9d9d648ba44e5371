"""
Routes about how long instances live: their leases, and the routes of the original system that stop or judge many.

Called by `api/app.py`. Calls `engine/commands/` and `engine/queries/`.
Rule: an instance without a record is never touched.
Start with `lease.py`.
"""
