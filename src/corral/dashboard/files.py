"""Serves the pages and what they load: the files in this folder, scripts without their comments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from importlib.resources import files
from os.path import normpath
from pathlib import PurePath
from typing import Any, Final

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from corral.base.static_files import StaticFile

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

PAGES: Final[Mapping[str, str]] = {
    "/": "fleet",
    "/instances/{instance_id:str}": "instance",
    "/costs": "costs",
    "/operations": "operations",
    "/help/tls": "help",
}
"""The folder whose `page.html` is served at each path. A new page is a folder and a line here."""

_TYPES = {".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml", ".js": "text/javascript"}


_SCRIPT = re.compile(r'<script type="module" src="([./]*dashboard/)([\w/.]+)"></script>')
_IMPORT = re.compile(r'^import [^;]*?from "([^"]+)";$', re.MULTILINE)
_COMMENT = re.compile(rb"^ *//.*", re.MULTILINE)
"""A line of a script that is only a comment. No browser needs them, and they are a twelfth of all bytes."""


def handlers() -> list[HTTPRouteHandler]:
    """The routes of the pages."""
    texts = {
        f"{folder.name}/{path.name}": _without_comments(path.read_bytes(), path.name)
        for folder in files("corral.dashboard").iterdir()
        if folder.is_dir()
        for path in folder.iterdir()
        if PurePath(path.name).suffix in _TYPES
    }
    held = {
        name: StaticFile.of(
            _with_preloads(text, texts) if name.endswith(".html") else text, _TYPES[PurePath(name).suffix]
        )
        for name, text in texts.items()
    }

    @get("/dashboard/{folder:str}/{name:str}", include_in_schema=False)
    async def part(request: Request[Any, Any, Any], folder: FromPath[str], name: FromPath[str]) -> Response[bytes]:
        """What a page loads."""
        file = held.get(f"{folder}/{name}")
        if file is None:
            raise NotFoundException
        return _served(file, request)

    return [part, *(_page(path, held[f"{folder}/page.html"]) for path, folder in PAGES.items())]


def _without_comments(text: bytes, name: str) -> bytes:
    """A script without comments; each leaves an empty line, so that an error has the line number of the source."""
    return _COMMENT.sub(b"", text) if name.endswith(".js") else text


def _page(path: str, file: StaticFile) -> HTTPRouteHandler:
    @get(path, include_in_schema=False)
    async def page(request: Request[Any, Any, Any]) -> Response[bytes]:
        """One page, the same for every path that matches; without a slash at its end, for its relative addresses."""
        raw = request.scope["raw_path"].decode("latin-1")  # the framework removes the slash from the path
        if raw != "/" and raw.endswith("/"):
            name, query = raw.rstrip("/").rpartition("/")[2], request.url.query
            location = f"../{name}{f'?{query}' if query else ''}"
            return Response(b"", status_code=HTTPStatus.PERMANENT_REDIRECT, headers={"location": location})
        return _served(file, request)

    return page


def _with_preloads(page: bytes, texts: Mapping[str, bytes]) -> bytes:
    """
    *page* with a link to every module that its script imports, directly or not.

    Browsers then load all of them at once; otherwise each level of imports costs a slow connection a round trip.
    """
    html = page.decode()
    script = _SCRIPT.search(html)
    if script is None:
        return page
    found = [script[2]]
    for module in found:  # grows while it is read
        imports = [normpath(PurePath(module).parent / name) for name in _IMPORT.findall(texts[module].decode())]
        found += [name for name in dict.fromkeys(imports) if name not in found]
    links = "".join(f'<link rel="modulepreload" href="{script[1]}{name}">\n  ' for name in found[1:])
    return html.replace(script[0], links + script[0]).encode()


def _served(file: StaticFile, request: Request[Any, Any, Any]) -> Response[bytes]:
    asked = request.headers
    sent = file.response(accept_encoding=asked.get("accept-encoding"), if_none_match=asked.get("if-none-match"))
    headers = {**sent.headers, "content-security-policy": POLICY}
    return Response(sent.body, status_code=sent.status, media_type=file.media_type, headers=headers)
