"""
The routes about the service itself: health, metrics, settings in effect, jobs, caches and `/docs`.

Called by `app.py`. Calls the engine, the job queue and the views.
Rule: a route here changes no instance.
Start with `health.py`.
"""
