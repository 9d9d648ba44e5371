"""
The command line.

Called by a person; calls the wiring (to serve and migrate).
Rule: it reads the environment, prints, and chooses exit codes; nothing else does.
Start at `main.py`.
"""
