"""
Routes about money: what usage cost.

Called by `api/app.py`. Calls the queries of `engine/costs/`.
Rule: a route only reads sums; it computes no money itself.
Start with `costs.py`.
"""
