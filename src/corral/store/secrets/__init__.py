"""
Secrets at rest: the key file, and sealing with it.

Called by the create command and the create step, which write and read `tables/sealed_secrets.py`. Calls nothing.
Rule: a value is in clear text only in memory, between the request and its sealing, and during the create call.
Start with `key_file.py`.
"""
