"""
Periodic jobs: orphans, stuck instances, retention.

Called by the job worker at fixed intervals. Calls the store and the provider.
Rule: deleting a machine takes the grace period, a fresh lookup and a claim in the database.
Start with `orphans.py`.
"""
