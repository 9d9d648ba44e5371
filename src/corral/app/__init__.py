"""
One process: opens what it runs on, builds its engine and its HTTP side, runs it and closes it.

Called by the command line. Calls every other package.
Rule: only this package opens connections and starts tasks; `engine/build.py` connects the parts of the engine.
Start with `bootstrap.py`.
"""
