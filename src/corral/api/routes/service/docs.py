"""`/docs`: the OpenAPI document, shown by Scalar. Its script is in the package `offapi` and served from here."""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any, Final

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import Redirect

from corral.api.middleware.auth import OPEN
from corral.base.static_files import StaticFile

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""As that of the dashboard, but for styles: Scalar adds `style` elements and attributes without a nonce. Nothing can be
loaded from or sent to another host, so a style cannot leak what is on the page."""

VIEWER: Final = "viewer.js"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PARTS: Final = frozenset({"page.css", "start.js", VIEWER})


def handlers() -> list[HTTPRouteHandler]:
    """The page and what it loads; each is read when it is first asked for, because few processes ever serve it."""

    @get("/docs", include_in_schema=False, opt=OPEN)
    async def page(request: Request[Any, Any, Any]) -> Response[Any]:
        """The page, which names its parts relative to itself."""
        if request.scope["raw_path"].partition(b"?")[0].endswith(b"/"):  # the framework serves it as `/docs`
            return Redirect("../docs")
        return await _served("page.html", request)

    @get("/docs/{name:str}", include_in_schema=False, opt=OPEN)
    async def part(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[Any]:
        """What the page loads."""
        if name not in _PARTS:
            raise NotFoundException
        return await _served(name, request)

    return [page, part]


async def _served(name: str, request: Request[Any, Any, Any]) -> Response[bytes]:
    file = await asyncio.to_thread(_file, name)  # the first time, the viewer is compressed for half a second
    asked = request.headers
    sent = file.response(accept_encoding=asked.get("accept-encoding"), if_none_match=asked.get("if-none-match"))
    headers = {**sent.headers, "content-security-policy": POLICY}
    return Response(sent.body, status_code=sent.status, media_type=file.media_type, headers=headers)


@cache
def _file(name: str) -> StaticFile:
    if name == VIEWER:
        # Not `importlib.resources`: it would import the package, which reads nine megabytes into templates.
        body = Path(str(distribution("offapi").locate_file("offapi/scalar.js"))).read_bytes()
    else:
        body = files("corral.api").joinpath("docs_page", name).read_bytes()
    return StaticFile.of(body, _TYPES[PurePath(name).suffix])
