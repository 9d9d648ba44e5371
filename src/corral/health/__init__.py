"""
Health checks of running instances.

Called by the engine; calls the endpoints of instances, which are not trusted.
Rule: nothing here waits for an instance to become healthy; the engine decides when to check again.
Start with `probe.py`; what counts as healthy is in `domain/health/checks.py`.
"""
