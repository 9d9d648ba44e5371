"""
The simulated account: instances, stock, prices, the ledger of what would be billed. No I/O.

Called by the simulator and its API handlers. Calls nothing outside this package.
Rule: time is an argument.
Start with `world.py`.
"""
