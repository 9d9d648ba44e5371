"""
Composition: builds one process from its parts and runs it.

Called by the command line. Calls every other package.
Rule: the only place that knows how the parts fit together.
Start with `bootstrap.py`.
"""
