"""
When a machine counts as healthy, and what a failed check means. Pure.

Called by the engine's probe step and by `corral.health`, which does the network part.
Rule: every failure has a category that says whether to try again.
Start with `checks.py`.
"""
