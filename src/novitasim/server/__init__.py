"""
The simulator as a process: HTTP, control routes, clock, and the state that puts them together.

Called by `novitasim.__main__` and `novitasim.testing`. Calls every other package of the simulator.
Rule: only `clock.py` reads the clock.
Start with `server.py`.
"""
