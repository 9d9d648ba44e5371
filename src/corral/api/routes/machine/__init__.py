"""
Routes that read from one machine at the provider: logins, logs, how busy it is.

Called by `api/app.py`. Calls `engine/machine/`.
Rule: no response is cached, compressed or stored where it may have a secret.
Start with `credentials.py`.
"""
