"""
Costs: what usage cost, read from the database.

Called by the routes and the command line. Calls the tables of usage; nothing here calls the provider.
Rule: every number is a sum of usage (`store/tables/costs/`), the same in every process.
Start with `cost_queries.py`.
"""
