"""
Corral: GPU instances on novita.ai, ready at the lowest price, none lost, none billed twice.

Start reading at ARCHITECTURE.md, or at `wiring.py`, the only file that knows every part.
"""

__version__ = "0.1.0"
