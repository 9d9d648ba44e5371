"""The API, readable: one page made from the OpenAPI document, without a script and without another host."""

from __future__ import annotations

from html import escape
from typing import Any

from litestar import MediaType, Request, Response, get
from litestar.handlers import HTTPRouteHandler

from corral.api.middleware.auth import OPEN
from corral.api.openapi.document import document

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
code, pre {{ font: .9em/1.4 ui-monospace, monospace; }}
section {{ border-top: 1px solid #8886; padding-top: .5rem; margin-top: 1.5rem; }}
.method {{ font-weight: 700; text-transform: uppercase; }}
table {{ border-collapse: collapse; width: 100%; }} th, td {{ text-align: left; padding: .2rem .6rem .2rem 0; }}
td {{ border-top: 1px solid #8883; vertical-align: top; }}
</style></head><body>
<h1>{title} <small>{version}</small></h1><p>{summary} The same as <a href="/schema/openapi.json">OpenAPI</a>.</p>
{operations}
</body></html>
"""


@get("/docs", media_type=MediaType.HTML, include_in_schema=False, opt=OPEN)
async def docs(request: Request[Any, Any, Any]) -> Response[str]:
    """Every route with its parameters and answers."""
    schema = document(request.app)
    operations = [
        _operation(method, path, operation, schema)
        for path, methods in sorted(schema["paths"].items())
        for method, operation in methods.items()
    ]
    page = _PAGE.format(
        title=escape(schema["info"]["title"]),
        version=escape(schema["info"]["version"]),
        summary=escape(schema["info"].get("summary", "")),
        operations="\n".join(operations),
    )
    return Response(page, media_type=MediaType.HTML, headers={"content-security-policy": _POLICY})


def _operation(method: str, path: str, operation: dict[str, Any], schema: dict[str, Any]) -> str:
    parameters = [
        _row(p["name"], p["in"], _type(p.get("schema", {}), schema), p.get("description", ""))
        for p in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    parameters += [_row(name, "body", _type(s, schema), s.get("description", "")) for name, s in _fields(body, schema)]
    answers = "".join(
        f"<li><b>{escape(str(status))}</b> {escape(answer.get('description', ''))} {_answer_type(answer, schema)}</li>"
        for status, answer in operation.get("responses", {}).items()
    )
    table = f"<table><tr><th>name<th>in<th>type<th>meaning</tr>{''.join(parameters)}</table>" if parameters else ""
    return (
        f'<section><h2><span class="method">{escape(method)}</span> <code>{escape(path)}</code></h2>'
        f"<p><b>{escape(operation.get('summary') or '')}</b>. {escape(operation.get('description') or '')}</p>"
        f"{table}<ul>{answers}</ul></section>"
    )


def _row(*cells: str) -> str:
    name, *rest = cells
    return f"<tr><td><code>{escape(name)}</code>" + "".join(f"<td>{escape(cell)}" for cell in rest) + "</tr>"


def _answer_type(answer: dict[str, Any], schema: dict[str, Any]) -> str:
    content: dict[str, Any] = answer.get("content", {})
    body: dict[str, Any] = next((media.get("schema", {}) for media in content.values()), {})
    fields = ", ".join(f"{name}: {_type(s, schema)}" for name, s in _fields(body, schema))
    return f"<code>{escape('{' + fields + '}')}</code>" if fields else ""


def _fields(node: dict[str, Any], schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    for option in node.get("oneOf", []):
        if option.get("type") != "null":
            return _fields(option, schema)
    return list(_resolved(node, schema).get("properties", {}).items())


def _type(node: dict[str, Any], schema: dict[str, Any]) -> str:
    if "oneOf" in node:
        return " or ".join(_type(option, schema) for option in node["oneOf"])
    if "$ref" in node:
        target = _resolved(node, schema)
        return " | ".join(map(str, target["enum"])) if "enum" in target else node["$ref"].rsplit("/", 1)[-1]
    kind = node.get("type", "any")
    word = f"{_type(node.get('items', {}), schema)}[]" if kind == "array" else str(kind)
    limits = [f"{name} {node[key]}" for key, name in (("minimum", "from"), ("maximum", "to")) if key in node]
    return " ".join([word, *limits])


def _resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    found: dict[str, Any] = schema["components"]["schemas"][reference.rsplit("/", 1)[-1]] if reference else node
    return found


def handlers() -> list[HTTPRouteHandler]:
    """The page."""
    return [docs]
