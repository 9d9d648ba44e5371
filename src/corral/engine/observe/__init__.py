"""
Reading the provider's account: one list call for all instances, by one leader, and lookups of single instances.

Called by the process as a background task. Calls the provider, the domain's `compare`, the store and the job queue.
Rule: observations are recorded in one place, `observations.py`.
Start with `observer.py`; when the account is listed is in `listing_schedule.py`.
"""
