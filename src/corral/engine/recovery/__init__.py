"""
Backups and what follows a lost database: export, import, rebuild from the provider's list.

Called by `corral.app.offline_tasks`. Calls the store and the provider.
Rule: nothing is imported into a database that is in use.
Start with `archive.py`.
"""
