"""
How many calls the provider may be sent, by all processes together, and which go first.

Called by `cloud/guarded.py` and by what samples machines. Calls the store of the shared count.
Rule: the limiter is pure and gets the time as an argument; a refusal of one service slows down only that service.
Start with `rate_limiter.py`; `throttle.py` applies it to calls, `learned_limit.py` finds the limit with `auto`.
"""
