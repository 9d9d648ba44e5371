"""
What Corral assumes about the provider, and whether the answers of an account agree with it.

Called by `engine/verification/`, which reads the answers, and by `tools/reference.py`; calls nothing.
Rule: pure; an answer is any JSON, and no finding quotes it beyond numbers, field names and single words.
Start with `table.py`, the list of all checks; `evidence.py` has what they read.
"""
