"""
The pure core: records, rules and decisions.

Called by every other layer. Calls nothing but the standard library's pure parts.
Rule: no await, no clock, no random number, no log, no I/O (import-linter proves it).
Start with `lifecycle/phases.py` (goals, phases, actions) and `lifecycle/tables.py` (the tables between them).
"""
