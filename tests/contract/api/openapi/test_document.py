"""The OpenAPI document leaves nothing to guess."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.http.served_api import ServedApi, opened

from corral.api.openapi.document import operations
from corral.store.session.database import Database

ROOT = Path(__file__).parents[4]
SPEC_CODES = re.compile(r"`([A-Z_]{6,})`")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """As committed; `tests/docs` proves that it is what the program says."""
    found: dict[str, Any] = msgspec.json.decode((ROOT / "docs/reference/openapi.json").read_bytes())
    return found


def fields(schema: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of a schema, also of schemas written out inside it."""
    for name, field in schema.get("properties", {}).items():
        yield f"{where}.{name}", field
        yield from fields(field, f"{where}.{name}")


def test_every_field_is_described_with_an_example(document: dict[str, Any]) -> None:
    """Of answers, of errors and of bodies that are sent."""
    found = [f for name, schema in document["components"]["schemas"].items() for f in fields(schema, name)]
    for path, method, operation in operations(document):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            found += fields(media["schema"], f"{method} {path}")

    assert len(found) > 200
    assert [where for where, field in found if not field.get("description")] == []
    assert [where for where, field in found if field.get("examples") in (None, [], [None])] == []


def test_every_parameter_is_described_with_an_example(document: dict[str, Any]) -> None:
    """In the path, the query and the headers."""
    found = [(f"{m} {p} {q['name']}", q) for p, m, o in operations(document) for q in o.get("parameters", ())]

    assert len(found) > 40
    assert [where for where, parameter in found if not parameter.get("description")] == []
    assert [where for where, parameter in found if parameter.get("example") is None] == []


def test_every_operation_says_what_it_is_and_how_it_fails(document: dict[str, Any]) -> None:
    """A name for programs, a line for people, and every error in the one shape with its codes."""
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names)) > 25
    for path, method, operation in operations(document):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["tags"], where
        errors = {status: a for status, a in operation["responses"].items() if int(status) >= 400}
        assert {"403", "429", "500", "503"} <= set(errors), where
        assert ("401" in errors) is bool(operation["security"]), where
        for status, answer in errors.items():
            media = answer["content"]["application/json"]
            assert media["schema"] == {"$ref": "#/components/schemas/Problem"}, (where, status)
            assert set(SPEC_CODES.findall(answer["description"])) == set(media["examples"]), (where, status)
            assert set(media["examples"]) <= set(document["components"]["examples"]), (where, status)


def test_every_change_takes_an_idempotency_key(document: dict[str, Any]) -> None:
    """As every POST and DELETE does."""
    changing = [o for _, method, o in operations(document) if method != "get"]

    assert len(changing) > 5
    assert all(any(p["name"] == "Idempotency-Key" for p in o["parameters"]) for o in changing)


async def test_a_service_serves_the_same_document(database: Database, document: dict[str, Any]) -> None:
    """Its routes and fields, with its own version."""
    async with opened(database) as api:
        served = await _served(api)

    assert served["info"]["version"] != "unversioned"
    first, *_ = operations(served)
    assert (first[0], first[1]) == ("/api/instances", "post")
    for path, item in served["paths"].items():
        assert item == document["paths"][path], path
    for name, schema in served["components"]["schemas"].items():
        assert schema == document["components"]["schemas"][name], name


async def _served(api: ServedApi) -> dict[str, Any]:
    answer = await api.get("/schema/openapi.json")
    assert answer.status == 200
    found: dict[str, Any] = answer.json
    return found
