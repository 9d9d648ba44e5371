"""
Measured comparisons: Corral alone and beside simpler things, on this machine, in one run.

Called by `make bench`; calls the product as its users do, and nothing of `tests/`.
Rule: one figure alone says little on a shared machine, so sides take turns and every row shows its spread.
Start with `comparison.py`; to add a row, add a Comparison to a topic (`jobs.py`, `web.py`, `startup.py`, `burst.py`,
`growth.py`) or a topic to `__main__.py`.
"""
