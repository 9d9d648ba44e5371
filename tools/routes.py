"""The pages about the HTTP API, generated from the routes."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from layout import page
from litestar import Litestar

from corral.api import app
from corral.api.http.limits import Limits
from corral.api.openapi import document


class _Anything:
    """Replaces the services behind the routes, which are only described here and never called."""

    def __getattr__(self, _name: str) -> _Anything:
        return self

    def __call__(self, *_arguments: object) -> _Anything:
        return self


def api_page() -> str:
    """Every route, for people."""
    lines: list[str] = []
    described = _described()
    routes = [
        (path, method, operation) for path, row in described["paths"].items() for method, operation in row.items()
    ]
    for tag in described["tags"]:
        rows = [
            f"| `{method.upper()} {path}` | {operation['summary']} | {_access(operation)} |"
            for path, method, operation in routes
            if operation["tags"][0] == tag["name"]
        ]
        lines += [
            f"## {tag['x-displayName']}",
            "",
            tag["description"],
            "",
            "| route | what it does | access |",
            "|---|---|---|",
            *rows,
            "",
        ]
    return page(
        "The HTTP API",
        "Every route. A running service shows parameters, bodies and responses at `/docs`, and serves them for "
        "programs at `/schema/openapi.json`; the same is in [openapi.json](openapi.json). Errors: [errors](errors.md).",
        ["![A route at /docs: parameters, an example, a request to try](../images/api.png)", "", *lines[:-1]],
    )


def _access(operation: Any) -> str:
    found = re.search(r"For callers of the role (\w+)", operation.get("description", ""))
    return f"`{found[1]}`" if found else "everyone"


def openapi_page() -> str:
    """Every route, for programs."""
    return json.dumps(_described(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _described() -> dict[str, Any]:
    """The OpenAPI document, without the version, which only a running service knows."""
    parts = {part.name: _Anything() for part in dataclasses.fields(app.AppDependencies)}
    plain = {"local_only": True, "allowed_origins": (), "limits": Limits(), "pages": ()}
    served: Any = app.build(app.AppDependencies(**(parts | plain)))  # type: ignore[arg-type]
    while not isinstance(served, Litestar):  # the edge and the response cache wrap it
        served = served.app
    found = document.document(served)
    found["info"]["version"] = "unversioned"
    return found
