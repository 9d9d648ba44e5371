"""
What an instance may be, what follows from an observation, and what to do next. Pure.

Called by the engine's commands and reconciler. Calls only other domain modules.
Rule: a phase is chosen here and nowhere else.
Start with `tables.py` (phases, actions and the two total tables), then `decide.py`.
"""
