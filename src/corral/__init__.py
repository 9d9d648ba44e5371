"""
Corral: GPU instances on novita.ai, ready at the lowest price, none lost, none billed twice.

Start reading at ARCHITECTURE.md, or at `engine/build.py`, which builds the engine from its parts.
"""

__version__ = "0.2.0"
