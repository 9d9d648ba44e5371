"""
The pure core: records, rules and decisions.

Called by every other layer. Calls nothing but the standard library's pure parts.
Rule: no await, no clock, no random number, no log, no I/O (import-linter proves it).
Start with `lifecycle/tables.py`: goals, phases, actions and the two tables between them.
"""
