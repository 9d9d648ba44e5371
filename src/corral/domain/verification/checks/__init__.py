"""
The checks themselves, by what of the provider they are about.

Called by `table.py`, which lists them all; call nothing.
Rule: a check returns what was seen if the assumption holds, and raises DiffersError or NotSeenError if not.
Start with `listing.py`; `creation.py` and `ending.py` need the trial machine of `corral verify --spend`.
"""
