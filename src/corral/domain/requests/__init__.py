"""
Request bodies: a table of fields gives the validation, with every problem at once, and the OpenAPI schema. Pure.

Called by the API's body readers. Calls only other domain modules.
Rule: an error message never repeats a value that may be secret.
Start with `create.py`; `fields.py` has the table's parts and the rules that all bodies share.
"""
