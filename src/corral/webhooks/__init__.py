"""
How changes are told to the outside.

Called by the engine (to send) and the API (to check an address); calls the receivers, which are strangers.
Rule: one attempt at a time and no memory here; what was sent, in which order, and when again is the engine's to record.
Start at `deliver.py`; `guard.py` says where a webhook may go, `sign.py` how a receiver knows that it is ours.
"""
