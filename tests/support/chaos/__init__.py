"""
A whole installation under attack: API and worker processes, PostgreSQL, the network, the provider and receivers.

`attack` runs it and returns a report; the judges are the simulator's ledger, the event log and what receivers got. All
chance derives from one seed, which is printed; the scheduling of the machine is not repeatable.
"""

from support.chaos.report import Report
from support.chaos.run import attack

__all__ = ["Report", "attack"]
