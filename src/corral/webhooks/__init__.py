"""
Sending webhooks to receivers.

Called by the engine (to send) and the API (to check an address); calls the receivers, which are not trusted.
Rule: one attempt at a time, and nothing is stored here; the engine records what was sent and when to retry.
Start with `deliver.py`; `guard.py` decides which addresses are allowed, `sign.py` signs messages.
"""
