"""
Connections to machines that are neither ours nor the provider's API.

Called by `corral.webhooks`, `corral.health` and `corral.engine`; calls name servers and opens sockets.
Rule: the address that is connected to is the address that was checked.
Start with `policy.py`; `resolver.py` resolves names in threads, `addresses.py` decides which addresses are public,
`provider_logs.py` opens log streams at the hosts that `provider_hosts.py` admits.
"""
