"""
Budgets: set and read, asked by creates and starts, and swept every minute.

Called by the routes, by `engine/commands` and `engine/reconcile/steps/create.py`, and by a periodic job (`sweep.py`).
Calls the store and the event publisher.
Rule: money is reserved in the transaction that records what it is for.
Start with `reservations.py`.
"""
