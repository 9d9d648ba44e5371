"""
The HTTP face: routes, what may come in, and the one shape of every error.

Called by the wiring; calls the engine and the job queue through the parts it is handed.
Rule: a route validates, calls one thing and answers; it decides nothing about instances and holds no state.
Start at `app.py`; `edge.py` is what every request passes first, `problems.py` what every error becomes.
"""
