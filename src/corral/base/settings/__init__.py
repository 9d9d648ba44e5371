"""
The settings: what each is called, accepts and means, and how it is read from the environment.

Called by everything above the domain. Calls nothing.
Rule: only `configuration.py` reads the environment; a bad value is reported by its name.
Start with `settings.py`; `fields.py` declares one setting, `configuration.py` reads and prints them.
"""
