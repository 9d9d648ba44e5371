"""
The command line.

Called by users. Calls `app/` (serve, doctor, offline tasks) and, for everything else, a service through the SDK.
Rule: only the command line reads the environment, prints, and chooses exit codes.
Start with `main.py`; `all_commands.py` lists the commands.
"""
