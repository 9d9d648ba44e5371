"""
Money: when a machine is billed, as far as observations show it, what that costs, and what the provider's bill says.

Called by the records of observations, the tables, queries and jobs of costs, and the provider's client. Calls the
other records.
Rule: pure; an edge that no observation shows exactly is an interval, and money is a whole number or a fraction.
Start with `meter.py`, then `usage.py`; `bill.py` and `reconciliation.py` are the provider's side.
"""
