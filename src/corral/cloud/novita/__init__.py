"""
The provider novita.ai, version 1 of its API.

Called by wiring; calls its HTTP API. `client.py` is the one implementation of `cloud/port.py`.
Rule: its words stay in this folder; `wire.py` has their shapes, `translate.py` and `faults.py` their meaning.
Start at `client.py`.
"""
