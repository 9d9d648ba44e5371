"""
What a user reads from one machine: logins, logs, the progress of its image, how busy it is.

Called by `engine/machine/` and `cloud/novita/`; calls nothing.
Rule: pure, and never raises: what the provider or a workload wrote is read as far as possible.
Start with `access.py`.
"""
