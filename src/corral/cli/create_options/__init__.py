"""
Options of `corral create`, and the part of the order that they make.

Called by `cli/commands/`. Calls the service only for completions.
Rule: an error names the option, and never has a value in it, which may be a secret.
Start with `container.py`; `env_files.py` reads variables and secrets, `lease.py` says when the instance ends.
"""
