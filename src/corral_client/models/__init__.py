"""
What is sent to the service and what it returns, typed; `corral_client` exports what programs name.

Used by every module of the SDK. Imports nothing but msgspec.
Rule: fields of a newer service are ignored, and new values of a choice pass as text.
Start with `instances.py` (instances, operations, events). `plans.py` has what a create would do, `orders.py` the
arguments of calls, `leases.py` what ends an instance, `machines.py` logins, use and volumes, `resources.py` products,
templates, jobs and health, `records.py` audit log and deliveries, `costs.py` what usage cost.
"""
