"""
What is true, and what follows: the pure core.

Called by every other layer; calls nothing but the standard library's pure parts.
Rule: no await, no clock, no random number, no log, no I/O (import-linter proves it).
Start at `errors.py` for the words failures are told in.
"""
