"""
Costs, forecasts, exports, budgets and reconciliations as the API shows them.

Called by the routes of costs and budgets. Calls only the domain.
Rule: as in `views/`; money is exact in the domain and becomes a decimal number here.
Start with `costs.py`; `export.py` has the CSV and FOCUS columns.
"""
