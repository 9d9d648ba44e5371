"""
Composition: builds one process from its parts and runs it.

Called by the command line, and by tests for `build_engine`. Calls every other package.
Rule: only this package connects the parts; `engine.py` builds the engine, `jobs.py` lists every job type.
Start with `bootstrap.py`.
"""
