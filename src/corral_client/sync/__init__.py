"""
The SDK without an event loop: each class wraps the asynchronous one of the same name.

Called by programs and by the command line. Calls `corral_client/` on a thread of its own.
Rule: no behaviour of its own, so that both clients are the same. Start with `client.py`.
"""
