"""
What an instance may be, what follows from an observation or a command, and what to do next. Pure.

Called by the engine's commands, reconciler and observer. Calls only other domain modules.
Rule: a phase is assigned here and nowhere else; every writer refuses a change that `tables.TRANSITIONS` does not hold.
Start with `phases.py` and `tables.py`, then `decide.py` (what next) and `transitions.py`; numbers are in `policy.py`.
"""
