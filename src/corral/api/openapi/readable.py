"""Rewrites the schemas of the framework as people read them: whole limits, `string or null`, times marked as times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from corral.api.openapi.examples import TIME

LARGEST_EXACT: Final = 2**53
"""A larger limit says "any": a client that reads numbers as floats would not get it right, and it is hard to read."""
_LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_CHOICES: Final = ("oneOf", "anyOf", "allOf")


def make_readable(found: dict[str, Any]) -> None:
    """Rewrite every schema of the document in place."""
    for schema in _schemas(found):
        _inline_single_choice(schema)
        _merge_null(schema)
        _round_limits(schema)


def mark_times(found: dict[str, Any]) -> None:
    """Give `format: date-time` to every schema whose example is a time, and to the values of a map of times."""
    for schema in _schemas(found):
        examples = schema.get("examples")
        if not isinstance(examples, list) or not examples:
            continue
        if examples[0] == TIME:
            schema["format"] = "date-time"
        elif "additionalProperties" in schema and all(value == TIME for value in examples[0].values()):
            schema["additionalProperties"] = {**schema["additionalProperties"], "format": "date-time"}


def _schemas(node: Any) -> Iterator[dict[str, Any]]:
    """Every object of the document, the innermost first; what is no schema has none of the keywords."""
    if isinstance(node, dict):
        for inner in list(node.values()):
            yield from _schemas(inner)
        yield node
    elif isinstance(node, list):
        for inner in node:
            yield from _schemas(inner)


def _inline_single_choice(schema: dict[str, Any]) -> None:
    for choice in _CHOICES:
        options = schema.get(choice)
        if isinstance(options, list) and len(options) == 1:
            del schema[choice]
            schema |= {**options[0], **schema}


def _merge_null(schema: dict[str, Any]) -> None:
    """`{oneOf: [{type: string}, {type: null}]}` becomes `{type: [string, null]}`."""
    options = schema.get("oneOf")
    if not isinstance(options, list) or {"type": "null"} not in options:
        return
    others = [option for option in options if option != {"type": "null"}]
    if len(others) == 1 and isinstance(others[0].get("type"), str) and "enum" not in others[0]:
        del schema["oneOf"]
        schema |= {**others[0], **schema, "type": [others[0]["type"], "null"]}


def _round_limits(schema: dict[str, Any]) -> None:
    kinds = schema.get("type")
    if kinds != "integer" and not (isinstance(kinds, list) and "integer" in kinds):
        return
    for limit in _LIMITS:
        value = schema.get(limit)
        if not isinstance(value, int | float):
            continue
        if abs(value) > LARGEST_EXACT:
            del schema[limit]
            schema["format"] = "int64"
        else:
            schema[limit] = int(value)
