"""
API keys and the audit log.

Called by the API's middleware and the `corral keys` command. Calls the store.
Rule: a key is stored only as its digest.
Start with `api_keys.py`.
"""
