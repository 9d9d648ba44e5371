"""
What a user asks for, recorded: create, change (start, stop, restart, delete) and adopt.

Called by the API's routes. Calls the domain's rules, the store and the event publisher.
Rule: goal, operation, event, audit line and job are committed in one transaction; the provider is not called here.
Start with `create.py`.
"""
