"""
Reading and validating request bodies: all problems of a body at once. Pure.

Called by the API's body readers. Calls only other domain modules.
Rule: a value that may be secret is never part of a problem's text.
Start with `create.py`; `fields.py` has the readers that all bodies share.
"""
