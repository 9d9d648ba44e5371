"""
Records as the API, events and webhooks show them: domain records in, wire shapes out.

Called by the engine (events, webhooks, the merged listing) and by routes. Calls only the domain.
Rule: pure functions; time and estimates are arguments.
Start with `instance.py`; the shapes are in `schemas.py`.
"""
