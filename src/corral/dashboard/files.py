"""Serves the pages and what they load, as they lie in this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Any, Final

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

PAGES: Final[Mapping[str, str]] = {"/": "fleet"}
"""The folder whose `page.html` is served at each path. A new page is a folder and a line here."""

_TYPES = {".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml", ".js": "text/javascript"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file, read once: it changes only with the program."""

    body: bytes
    media_type: str
    tag: str


def handlers() -> list[HTTPRouteHandler]:
    """The routes of the pages."""
    held = {
        f"{folder.name}/{path.name}": _read(path)
        for folder in files("corral.dashboard").iterdir()
        if folder.is_dir()
        for path in folder.iterdir()
        if PurePath(path.name).suffix in _TYPES
    }

    @get("/dashboard/{folder:str}/{name:str}", include_in_schema=False)
    async def part(request: Request[Any, Any, Any], folder: FromPath[str], name: FromPath[str]) -> Response[bytes]:
        """What a page loads."""
        file = held.get(f"{folder}/{name}")
        if file is None:
            raise NotFoundException
        return _served(file, request)

    return [part, *(_page(path, held[f"{folder}/page.html"]) for path, folder in PAGES.items())]


def _page(path: str, file: _File) -> HTTPRouteHandler:
    @get(path, include_in_schema=False)
    async def page(request: Request[Any, Any, Any]) -> Response[bytes]:
        """One page, the same for every path that matches."""
        return _served(file, request)

    return page


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
