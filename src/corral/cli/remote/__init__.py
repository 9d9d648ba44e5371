"""
Logins on machines with the system's own ssh: its arguments, its password, its configuration.

Called by `cli/commands/machine/`. Calls the service through the SDK.
Rule: nothing that a service or the provider says becomes an option of ssh, and no password is in an argument or a file.
Start with `login.py`.
"""
