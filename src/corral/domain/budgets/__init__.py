"""
Budgets: limits on the cost of all or some instances in a period, and the money reserved for creates and starts. Pure.

Called by the commands that create and start, the sweep over budgets, and the views. Calls only other domain modules.
Rule: what may be spent counts as spent, so that a limit is kept by what is admitted.
Start with `budget.py` (the records), then `admission.py` (what is refused) and `announcements.py` (what is reported).
"""
