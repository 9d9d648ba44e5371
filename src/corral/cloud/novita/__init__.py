"""
The provider novita.ai, version 1 of its API.

Called by `app/runtime.py`, through `account.py`. Calls the provider's HTTP API.
Rule: the provider's words stay here; `wire.py` has their shapes, `translate.py` and `faults.py` their meaning.
Start with `client.py`, the one implementation of `cloud/port.py`.
"""
