"""
Which offer to take, in which order, and why not the others. Pure.

Called by the engine's catalog queries and its create step. Calls only other domain modules.
Rule: every rejected offer carries its reason.
Start with `rank.py`; `catalog.py` has the records and compares names, `pricing.py` converts money.
"""
