"""
What requests about money may contain: periods and groupings, budgets, days to reconcile. Pure.

Called by the body readers and routes of the API. Calls only other domain modules.
Rule: as in `domain/requests/`.
Start with `period.py`.
"""
