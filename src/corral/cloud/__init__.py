"""
The provider account, and the rate limiter, circuit breaker and retries around each call.

Called by the engine. Calls the provider's HTTP API, which no other package does.
Rule: the class of an error says what may be done next, and an unclear answer to a change is never "transient".
Start with `port.py`, the interface; `guarded.py` shows what happens around each call, `rate_limit/` how many are sent.
"""
