"""
Traces: spans around requests, reconciles and calls, if tracing is installed and switched on.

Called by every layer that has a span. Calls OpenTelemetry, in `otel.py` only.
Rule: without tracing nothing of OpenTelemetry is imported, and a span costs next to nothing.
Start with `tracing.py`.
"""
