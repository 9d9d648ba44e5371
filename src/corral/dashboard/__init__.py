"""
The page for people at `/`.

Called by browsers, wired in beside the API; calls nothing: the page itself asks the API, as any other client does.
Rule: no build step, no other host, no inline script or style, and no text from the API ever becomes markup.
Start at `page.html`; `app.js` names the scripts that keep it live, `style.css` has both colour schemes and the phone.
"""
