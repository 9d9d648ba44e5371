"""
Measured comparisons: Corral beside the bare libraries it is built on, on this machine, in one run.

Called by `make bench`; calls the product as its users do, and nothing of `tests/`.
Rule: one figure alone says little on a shared machine, so sides take turns and every row is a ratio with its spread.
Start at `contest.py`; to add a row, add a Contest to a topic (`jobs.py`, `web.py`, `startup.py`) or a topic to
`__main__.py`.
"""
