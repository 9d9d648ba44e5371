"""The routes, one file per noun; each file offers HANDLERS. `api/app.py` puts them together."""
