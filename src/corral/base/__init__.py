"""
What every layer may use: clock, settings, logs, metrics and traces, memory, file locks, descriptor limits.

Called by everything above the domain. Calls only the domain.
Rule: only `clock.py` reads the clock, only `settings/configuration.py` reads the environment.
Start with `settings/settings.py`.
"""
