"""
Whether a running instance answers.

Called by the engine; calls the endpoints of instances, which belong to the provider's users.
Rule: nothing here waits for an instance to become healthy; the engine decides when to check again.
Start at `probe.py`; what counts as healthy is in `domain/health/checks.py`.
"""
