"""
Building blocks for statements: bulk inserts, several writes in one round trip, the instance as JSON, exports.

Called by `store.tables` and the engine. Calls asyncpg.
Rule: these modules know the shape of rows, not the meaning; decisions about rows are the engine's.
Start with `combined_statement.py`.
"""
