"""The OpenAPI document passes what redocly and spectral check, and reads well; both need Node, this does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from corral.api.openapi.document import operations

DOCUMENT = Path(__file__).parents[4] / "docs/reference/openapi.json"
TIME = "2030-01-01T00:00:00.000Z"
LARGEST_EXACT = 2**53
"""Above it, a program that reads numbers as floats, as every browser does, gets another number."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """As committed; `tests/docs` proves that it is what the program says."""
    found: dict[str, Any] = msgspec.json.decode(DOCUMENT.read_bytes())
    return found


def nodes(value: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in *value*, with its path."""
    if isinstance(value, dict):
        yield where, value
        for key, inner in value.items():
            yield from nodes(inner, f"{where}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from nodes(inner, f"{where}/{index}")


def mismatch(document: dict[str, Any], schema: Any, example: Any) -> str | None:
    """Why *example* does not fit *schema*, if it does not."""
    whole = {**schema, "components": document["components"]}
    validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
    error = next(iter(validator.iter_errors(example)), None)
    return None if error is None else f"{example!r}: {error.message}"


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    """Of fields, parameters and bodies: a reader copies them."""
    wrong: list[tuple[str, str]] = []
    for where, node in nodes(document):
        schema = node.get("schema") if isinstance(node.get("schema"), dict) else None
        named = [e["value"] for e in node.get("examples", {}).values() if "value" in e] if schema else []
        pairs = [(schema, node["example"])] if schema and "example" in node else []
        pairs += [(schema, example) for example in named]
        pairs += [(node, e) for e in node["examples"]] if isinstance(node.get("examples"), list) else []
        wrong += [(where, why) for s, e in pairs if (why := mismatch(document, s, e))]

    assert wrong == []


def test_every_time_is_marked_as_one(document: dict[str, Any]) -> None:
    """So that generated clients parse it."""
    times = [(where, node) for where, node in nodes(document) if TIME in _examples(node)]

    assert len(times) > 30
    assert [where for where, node in times if node.get("format") != "date-time"] == []


def _examples(node: dict[str, Any]) -> list[Any]:
    found = node.get("examples")
    return found if isinstance(found, list) else []


def test_numbers_and_nulls_are_written_as_people_read_them(document: dict[str, Any]) -> None:
    """No `0.0` or `9.22e+18` as the limit of an integer, and `string or null` in place of two schemas."""
    for where, node in nodes(document):
        kinds = node.get("type")
        if kinds == "integer" or (isinstance(kinds, list) and "integer" in kinds):
            limits = [node[key] for key in ("minimum", "maximum", "exclusiveMinimum") if key in node]
            assert all(isinstance(limit, int) and abs(limit) <= LARGEST_EXACT for limit in limits), where
        for key in ("oneOf", "anyOf", "allOf"):
            options = node.get(key)
            if isinstance(options, list):
                assert len(options) > 1, where
                is_named = any("$ref" in option or "enum" in option for option in options)
                assert is_named or {"type": "null"} not in options, where


def test_topics_are_described_and_begin_with_how_to_create(document: dict[str, Any]) -> None:
    """A new user looks for that first; the alphabet begins with the audit log."""
    topics = {topic["name"]: topic for topic in document["tags"]}
    used = {tag for _, _, operation in operations(document) for tag in operation["tags"]}

    assert used <= set(topics)
    assert [name for name, topic in topics.items() if not (topic["description"] and topic["x-displayName"])] == []
    assert next(iter(topics)) == "instances"
    assert document["info"]["contact"]


def test_operations_are_named_as_functions(document: dict[str, Any]) -> None:
    """Generated clients call their methods so: `createInstance`, and not `ApiInstancesCreateInstance`."""
    names = {operation["operationId"] for _, _, operation in operations(document)}

    assert [name for name in names if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)+", name)] == []
    assert {"createInstance", "listInstances", "getInstance", "deleteInstance", "clearCaches", "removeJobs"} <= names


def test_every_operation_says_more_than_its_title(document: dict[str, Any]) -> None:
    """A sentence of its own, in front of the role that is needed."""
    texts = {f"{m} {p}": o.get("description", "").split("\n\nFor callers")[0] for p, m, o in operations(document)}

    assert [where for where, text in texts.items() if not text or text.startswith("For callers")] == []


def test_bodies_are_required_only_where_they_are(document: dict[str, Any]) -> None:
    """A create needs one, and a command that names its instance in the body."""
    required = {f"{m} {p}" for p, m, o in operations(document) if o.get("requestBody", {}).get("required")}
    optional = {
        f"{m} {p}" for p, m, o in operations(document) if o.get("requestBody", {"required": 1})["required"] == 0
    }

    assert {"post /api/instances", "post /api/instances/start", "post /api/instances/stop"} <= required
    assert {"post /api/cache/clear", "post /api/jobs/cleanup", "post /api/instances/{instance_id}/start"} <= optional
