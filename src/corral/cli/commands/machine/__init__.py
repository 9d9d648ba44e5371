"""
The commands that use a machine: logs, how busy it is, ssh, forwarded ports.

Called by `cli/all_commands.py`. Calls the service through the SDK, and `cli/remote/` for the system's ssh.
Rule: as in `cli/commands/`; what ssh is started with is decided in `cli/remote/`.
Start with `logs.py`; `ssh.py` has the logins, `forward.py` port-forward and open, `top.py` the live table.
"""
