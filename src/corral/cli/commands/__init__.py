"""
The commands, one module for each group of them.

Called by `cli/all_commands.py`. Calls the service through the SDK, or `app/` for what needs no running service.
Rule: a command reads its arguments, calls, and prints through `cli/output.py` or `cli/table.py`.
Start with `listing.py`. `machine/` has what uses one machine, `service/` what runs and repairs the service itself.
"""
