"""
What is shown: instances, the merged listing, the fleet's numbers, the catalog, estimates.

Called by the API's routes and by the create step (catalog). Calls the store, the caches and the provider.
Rule: a query changes nothing.
Start with `instances.py`.
"""
