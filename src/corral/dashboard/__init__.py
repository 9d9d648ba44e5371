"""
The pages for people: the fleet at `/`, one instance at `/instances/{id}`, `/costs`, `/operations`, and what they load.

Called by browsers, wired in beside the API; calls nothing: the pages themselves ask the API, as any other client does.
One folder a page with its `page.html`, scripts and style; `shared/` has what every page uses, `create/` the form.
Rule: no build step, no other host, no inline script or style, no text from the API ever becomes markup, and every
address is relative or starts at `shared/root.js`, so that a proxy may serve all of it below a prefix.
Start at `files.py` for the paths and `fleet/app.js` for the scripts of the first page.
"""
