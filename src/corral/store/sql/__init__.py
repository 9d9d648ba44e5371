"""
Building blocks for statements: bulk inserts, several writes in one round trip, the instance as one text.

Called by `store.tables` and the engine's recorder.
Rule: nothing here knows what a row means.
Start with `combined_statement.py`.
"""
