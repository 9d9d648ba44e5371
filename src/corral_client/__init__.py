"""
The SDK: what a Python program needs to use a running Corral. Imports nothing of the service.

Empty until the HTTP API it speaks to exists.
"""
