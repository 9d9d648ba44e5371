"""
Money: what instances and storages are charged, the bill that customers read, the ledger that tests judge by. No I/O.

Called by the commands, the simulator and its API handlers. Calls the world's values and nothing else.
Rule: everything follows from timelines, whose past never changes; time is an argument.
Start with `charges.py`.
"""
