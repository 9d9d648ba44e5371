"""
Completes the OpenAPI document of the framework with descriptions, examples and errors.

These come from two tables, `fields.py` and `errors.py`, so that no route repeats them. A test fails on a field or route
without a description.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from inspect import getdoc
from typing import Any, Final, cast

import msgspec
from litestar import Litestar, Request
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Example, OpenAPIMediaType, Operation, RequestBody
from litestar.routes import HTTPRoute

from corral.api.middleware.auth import NEEDS
from corral.api.middleware.idempotency import HEADER
from corral.api.openapi.errors import ERROR_SCHEMAS, examples, failures
from corral.api.openapi.fields import FIELDS
from corral.api.openapi.readable import make_readable, mark_times
from corral.api.openapi.samples import samples
from corral.api.openapi.topics import in_order
from corral.domain.access import Access
from corral.domain.requests.fields import JsonSchema

_METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})
_CHANGING: Final = frozenset({"post", "put", "patch", "delete"})
_DEEPEST: Final = 6
_KEY_HEADER: Final = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "The same key and request within 24 hours gets the first answer again and does nothing.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_UNKNOWN: Final[tuple[str, object]] = ("", None)


def keep_steady(app: Litestar) -> None:
    """Disable the framework's random examples, so that every process serves the same document."""
    for handler in (handler for route in _routes(app) for handler in route.route_handlers):
        for answer in (handler.responses or {}).values():
            answer.generate_examples = False


def document(app: Litestar) -> dict[str, Any]:
    """The whole document, as plain JSON values."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(app.openapi_schema.to_schema()))
    schemas: dict[str, Any] = found["components"]["schemas"]
    schemas |= ERROR_SCHEMAS
    make_readable(found)
    needs = _needs(app)
    for path, method, operation in operations(found):
        _complete_operation(path, method, operation, needs.get((path, method)))
    for name, schema in schemas.items():
        _explain_fields(schema, name)
        if "enum" in schema:
            _restore(name, schema)
    for schema in schemas.values():
        _exemplify_fields(schema, schemas)
    for path, method, operation in operations(found):
        _explain(operation, schemas)
        operation["x-codeSamples"] = samples(path, method, operation)
    mark_times(found)
    in_order(found)
    found["components"]["examples"] = examples()
    found["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `corral keys create`."},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key."},
    }
    return found


def operations(found: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation of the document, with its path and method."""
    for path, item in found["paths"].items():
        for method, operation in item.items():
            if method in _METHODS:
                yield path, method, operation


def with_body(schema: JsonSchema, *, required: bool = False) -> type[Operation]:
    """The class of an operation whose body `domain/requests` reads, with *schema*, and not the framework."""
    [full] = schema["examples"]
    choices = schema.get("anyOf") or schema.get("oneOf") or [{}]
    required_names = {*schema.get("required", ()), *choices[0].get("required", ())}
    minimal = {name: value for name, value in full.items() if name in required_names}
    shown = {
        "minimal": Example(summary="Only what is required", value=minimal),
        "full": Example(summary="Every field", value=full),
    }
    media = OpenAPIMediaType(schema=cast("Any", schema), examples=cast("Any", shown))
    body = RequestBody(required=required, content={"application/json": media})

    @dataclass
    class OperationWithBody(Operation):
        def __post_init__(self) -> None:
            self.request_body = body

    return OperationWithBody


def operation_id(handler: HTTPRouteHandler, *_: object) -> str:
    """`createInstance` for the handler `create_instance`: what generated clients call their method."""
    first, *others = handler.handler_name.split("_")
    return first + "".join(word.capitalize() for word in others)


class CompletedJson(JsonRenderPlugin):
    """Serves the completed document."""

    def __init__(self) -> None:
        super().__init__()
        self._body: bytes | None = None

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        """The document, made once, because the routes do not change while a process runs."""
        if self._body is None:
            self._body = msgspec.json.encode(document(request.app))
        return self._body


def _routes(app: Litestar) -> list[HTTPRoute]:
    return [route for route in app.routes if isinstance(route, HTTPRoute)]


def _needs(app: Litestar) -> dict[tuple[str, str], Access | None]:
    """The access level of each route, by path and method."""
    return {
        (route.path_format, method.lower()): handler.opt.get(NEEDS)
        for route in _routes(app)
        for handler in route.route_handlers
        for method in handler.http_methods
    }


def _complete_operation(path: str, method: str, operation: dict[str, Any], needs: Access | None) -> None:
    if method in _CHANGING:
        operation["parameters"] = [*operation.get("parameters", ()), dict(_KEY_HEADER)]
    _relax_body(operation)
    if needs is None:
        operation["security"] = []
    else:
        operation["security"] = [{"bearer": []}, {"header": []}]
        text = operation.get("description", "").strip()
        operation["description"] = f"{text}\n\nFor callers of the role {needs.name.lower()} and above.".strip()
    good = {code: answer for code, answer in operation["responses"].items() if int(code) < 400}  # noqa: PLR2004
    for media in (media for answer in good.values() for media in answer.get("content", {}).values()):
        if "oneOf" in media["schema"]:  # of two shapes of a list, an empty one has both
            media["schema"]["anyOf"] = media["schema"].pop("oneOf")
    operation["responses"] = good | failures(path, method, operation, is_open=needs is None)


def _relax_body(operation: dict[str, Any]) -> None:
    """Mark the body of a handler that takes None as optional; the framework describes it as required, or null."""
    body = operation.get("requestBody", {})
    for media in body.get("content", {}).values():
        options = media["schema"].get("oneOf", [])
        others = [option for option in options if option != {"type": "null"}]
        if len(others) < len(options):
            body["required"] = False
            media["schema"] = others[0]


def _explain(operation: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        meaning, example = FIELDS.get(f"{operation['operationId']}.{name}") or FIELDS.get(name, _UNKNOWN)
        if meaning:
            parameter.setdefault("description", meaning)
        chosen = _example(parameter["schema"], schemas)  # a member of an enum, if it is one
        parameter.setdefault("example", example if chosen is None else chosen)


def _explain_fields(schema: dict[str, Any], name: str) -> None:
    for field, described in schema.get("properties", {}).items():
        meaning, example = FIELDS.get(f"{name}.{field}") or FIELDS.get(field, _UNKNOWN)
        if meaning:
            described.setdefault("description", meaning)
        if example is not None and "examples" not in described and "$ref" not in described:
            described["examples"] = [example]
        _explain_fields(described, field)


def _exemplify_fields(schema: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    """Give each field without an example one made from those of its parts."""
    for described in schema.get("properties", {}).values():
        described.setdefault("examples", [_example(described, schemas)])


def _restore(name: str, words: dict[str, Any]) -> None:
    """Describe an enum; the framework leaves the description of one arbitrary field that uses it."""
    ours = [kind for kind in StrEnum.__subclasses__() if kind.__module__.startswith("corral.")]
    meanings = {kind.__name__: getdoc(kind) for kind in ours}
    words.pop("default", None)
    words["examples"] = words["enum"][:1]
    words["description"] = meanings.get(name) or ""


def _example(schema: Mapping[str, Any], schemas: Mapping[str, Any], depth: int = 0) -> Any:
    if schema.get("examples"):
        return schema["examples"][0]
    if "$ref" in schema:
        return _example(schemas[schema["$ref"].rsplit("/", 1)[-1]], schemas, depth)
    if "enum" in schema:
        return schema["enum"][0]
    for choice in ("oneOf", "allOf", "anyOf"):
        if choice in schema:
            return _example(schema[choice][0], schemas, depth)
    if "properties" in schema and depth < _DEEPEST:
        return {name: _example(field, schemas, depth + 1) for name, field in schema["properties"].items()}
    if "items" in schema:
        return [_example(schema["items"], schemas, depth + 1)]
    inner = schema.get("additionalProperties")
    return {"name": _example(inner, schemas, depth + 1)} if isinstance(inner, dict) and inner else None
