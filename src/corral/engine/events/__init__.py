"""
The event log: written with the change, numbered, streamed, and sent to webhooks.

Called by the recorder and the commands (publisher), the API (log, stream) and the job worker (webhook sender).
Rule: an event is committed with its change, or not at all.
Start with `publisher.py`.
"""
