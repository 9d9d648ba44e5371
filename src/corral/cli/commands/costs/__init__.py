"""
The commands about money: costs, budgets, and the comparison with the bill.

Called by `cli/all_commands.py`. Calls the service through the SDK.
Rule: as in `cli/commands/`.
Start with `costs.py`.
"""
