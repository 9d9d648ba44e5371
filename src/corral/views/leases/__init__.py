"""
Leases as the API shows them, and the counts for clients of the original.

Called by the views of an instance, the lease routes and commands. Calls only the domain.
Rule: as in `views/`.
Start with `lease.py`.
"""
