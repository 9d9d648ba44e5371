"""
What processes of one installation share beside its instances: identity, last listing, counts of the rate limits.

Called by the engine, the provider's client and the API's rate limit. Calls `store.sql` and asyncpg.
Rule: one module a table, and no row belongs to one instance.
Start with `last_listing.py`.
"""
