"""
How records are shown: from domain records to the shapes of the API.

Called by routes, events and webhooks. Calls only the domain.
Rule: pure functions of what is passed in.
Start with `instance.py`; the shapes are in `schemas.py`.
"""
