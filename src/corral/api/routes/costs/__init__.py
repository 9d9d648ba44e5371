"""
Routes about money: what usage cost, and budgets.

Called by `api/app.py`. Calls `engine/costs/` and `engine/budgets/`.
Rule: a route only reads sums; it computes no money itself.
Start with `costs.py`.
"""
