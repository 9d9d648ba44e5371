"""
What we ask of the provider.

Called by the engine and the catalog's readers; calls the provider's HTTP API, which only this folder speaks.
Rule: an error says what may be done next (`domain/errors.py`), and an unclear answer to a change is never "transient".
Start at `port.py`, the words the rest of the program uses; `guarded.py` is what happens around each call.
"""
