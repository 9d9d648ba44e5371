"""
The commands of operators: they run, check, export and rebuild the service.

Called by `cli/all_commands.py`, `serve.py` also by `cli/main.py`. Calls `app/`, imported on use, and the database;
`doctor` and `rebuild` also the provider.
Rule: no command here needs a running service.
Start with `serve.py` (serve, config, migrate, sim, version); `recovery.py` has export, import and rebuild.
"""
