"""
What users read from one machine at the provider, at the moment they ask: logins, logs, how busy it is.

Called by `api/routes/machine/`; calls the provider, the queries of `engine/queries/` and `corral.outbound`.
Rule: nothing is written, and no login is cached, logged or stored.
Start with `credentials.py`.
"""
