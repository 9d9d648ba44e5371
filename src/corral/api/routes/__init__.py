"""
The routes of the API, one file a noun, with the shapes of their bodies where no other room uses them.

Called by `app.py`. Calls the engine, the job queue and the views.
Rule: every handler declares the role it needs in `opt`, makes one call and returns its result.
Start with `instances.py`; routes about one machine are in `machine/`, those about the service itself in `service/`.
"""
