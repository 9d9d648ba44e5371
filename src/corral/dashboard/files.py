"""Serves the page and what it loads, as they lie in this folder."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Any

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

_TYPES = {".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml", ".js": "text/javascript"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file, read once: it changes only with the program."""

    body: bytes
    media_type: str
    tag: str


def handlers() -> list[HTTPRouteHandler]:
    """The routes of the page."""
    held = {
        path.name: _read(path) for path in files("corral.dashboard").iterdir() if PurePath(path.name).suffix in _TYPES
    }

    @get("/", include_in_schema=False)
    async def page(request: Request[Any, Any, Any]) -> Response[bytes]:
        """The page itself."""
        return _served(held["page.html"], request)

    @get("/dashboard/{name:str}", include_in_schema=False)
    async def part(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
        """What the page loads."""
        if name not in held:
            raise NotFoundException
        return _served(held[name], request)

    return [page, part]


def _read(path: Traversable) -> _File:
    body = path.read_bytes()
    return _File(body=body, media_type=_TYPES[PurePath(path.name).suffix], tag=f'"{sha256(body).hexdigest()[:32]}"')


def _served(file: _File, request: Request[Any, Any, Any]) -> Response[bytes]:
    """The file, or that the browser's copy is still right; browsers always ask, so page and script never mix ages."""
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    unchanged = file.tag in known
    return Response(
        b"" if unchanged else file.body,
        status_code=HTTPStatus.NOT_MODIFIED if unchanged else HTTPStatus.OK,
        media_type=file.media_type,
        headers={"cache-control": "no-cache", "etag": file.tag, "content-security-policy": POLICY},
    )
