"""
Connections to machines that are neither ours nor the provider's API.

Used by webhooks and health probes; calls name servers and opens sockets.
Rule: the address that is connected to is the address that was checked.
Start at `policy.py`; `resolver.py` resolves names in threads of its own, `addresses.py` says which are public.
"""
