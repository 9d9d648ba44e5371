"""
The tables about callers: their API keys, what each changed, and the responses to their idempotency keys.

Called by the engine, the job queue and the middleware of the API, with a connection they opened. Calls asyncpg.
Rule: an API key is stored as a digest, never as text.
Start with `keys.py`.
"""
