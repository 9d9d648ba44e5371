"""
What is looked for every minute: provider instances that nobody remembers, and instances that make no progress.

Called by the worker, every minute, and by `api/routes/orphans.py`. Calls the store and, to delete, the cloud.
One rule here: nothing is deleted that does not carry this installation's own mark, and only when it was asked for.
Start at `orphans.py`.
"""
