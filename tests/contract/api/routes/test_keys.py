"""The caller and the API keys over HTTP: who may see and change them, and that a key is shown once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from support.engines.command_env import CommandEnv
from support.engines.runtime import settings_of
from support.http.service import Answer, Service, error_of, serving

from corral.base.clock import SystemClock
from corral.domain.access import Access
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database


async def made(database: Database, access: Access) -> dict[str, str]:
    """The header of a new key that has the name of its role."""
    _, text = await create_key(database, name=access.value, access=access, now=SystemClock().now())
    return {"x-api-key": text}


@pytest.fixture
async def public(database: Database) -> AsyncGenerator[Service]:
    """As if bound to an address other machines reach."""
    async with serving(database, local_only=False) as service:
        yield service


async def post(service: Service, body: object, headers: dict[str, str]) -> Answer:
    return await service.ask("POST", "/api/keys", json=body, headers=headers)


async def audit_lines(service: Service, boss: dict[str, str]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = (await service.ask("GET", "/api/audit", headers=boss)).json["entries"]
    return [line for line in lines if line["method"] != "CLI"]


async def test_a_caller_learns_who_it_is(database: Database, public: Service) -> None:
    """With the role, and whether a key is needed here; without one there is none to tell."""
    olga = await made(database, Access.OPERATOR)
    async with serving(database) as local:
        ours = (await local.ask("GET", "/api/whoami")).json
        forwarded = (await local.ask("GET", "/api/whoami", headers={**olga, "x-forwarded-for": "203.0.113.9"})).json
    theirs = (await public.ask("GET", "/api/whoami", headers=olga)).json

    assert ours == {"name": "local", "role": "admin", "keyId": None, "keyRequired": False, "viaProxy": False}
    assert (theirs["name"], theirs["role"], theirs["keyRequired"]) == ("operator", "operator", True)
    assert theirs["keyId"].startswith("key_")
    assert forwarded == theirs
    error_of(await public.ask("GET", "/api/whoami"), 401, "UNAUTHORIZED")


async def test_a_new_key_is_shown_once_and_works_at_once(database: Database, public: Service) -> None:
    """Its text is in no other answer and in no table."""
    boss = await made(database, Access.ADMIN)
    answer = await post(public, {"name": "olga", "role": "operator"}, {**boss, "accept-encoding": "gzip"})
    found = answer.json

    assert (answer.status, answer.headers["cache-control"]) == (201, "no-store")
    assert "content-encoding" not in answer.headers
    assert (found["name"], found["role"], found["revokedAt"]) == ("olga", "operator", None)
    assert found["key"].startswith(found["prefix"])
    who = await public.ask("GET", "/api/whoami", headers={"x-api-key": found["key"]})
    assert (who.json["name"], who.json["keyId"]) == ("olga", found["id"])

    listed = await public.ask("GET", "/api/keys", headers=boss)
    assert [(key["name"], key["role"]) for key in listed.json["keys"]] == [("admin", "admin"), ("olga", "operator")]
    assert listed.json["keys"][1] == {name: value for name, value in found.items() if name != "key"}
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT k::text FROM corral_keys AS k UNION ALL SELECT a::text FROM corral_audit AS a"
        )
    assert [row for row in rows if found["key"] in row["k"]] == []


async def test_the_key_is_not_kept_for_a_repetition(database: Database, public: Service) -> None:
    """A stored answer would be the key in clear text; a repetition says that the name is in use."""
    boss = {**await made(database, Access.ADMIN), "idempotency-key": "k1"}
    first, again = [await post(public, {"name": "olga"}, boss) for _ in range(2)]

    assert first.status == 201
    error_of(again, 409, "KEY_NAME_TAKEN")
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM corral_idempotency") == 0


async def test_a_revoked_key_is_refused_at_once(database: Database, public: Service) -> None:
    """By id or by name; a second time there is none in use. The list still shows it."""
    boss = await made(database, Access.ADMIN)
    one, other = [(await post(public, {"name": name}, boss)).json for name in ("one", "other")]

    for key, named in ((one, one["id"]), (other, "other")):
        assert (await public.ask("GET", "/api/whoami", headers={"x-api-key": key["key"]})).status == 200
        revoked = await public.ask("DELETE", f"/api/keys/{named}", headers=boss)
        assert (revoked.status, revoked.json["id"]) == (200, key["id"])
        assert revoked.json["revokedAt"] is not None
        error_of(await public.ask("GET", "/api/whoami", headers={"x-api-key": key["key"]}), 401, "UNAUTHORIZED")
        error_of(await public.ask("DELETE", f"/api/keys/{named}", headers=boss), 404, "KEY_NOT_FOUND")
    keys = (await public.ask("GET", "/api/keys", headers=boss)).json["keys"]
    assert [key["revokedAt"] is not None for key in keys] == [False, True, True]


async def test_every_change_of_a_key_is_in_the_audit_log(database: Database, public: Service) -> None:
    """With its author and the key that it was about; what was refused, too."""
    boss, eye = await made(database, Access.ADMIN), await made(database, Access.VIEWER)
    key = (await post(public, {"name": "olga", "role": "admin"}, boss)).json
    await public.ask("DELETE", "/api/keys/olga", headers=boss)
    await post(public, {"name": "mine"}, eye)

    lines = await audit_lines(public, boss)

    assert [(line["who"], line["method"], line["status"]) for line in lines] == [
        ("admin", "POST", 201),
        ("admin", "DELETE", 200),
        ("viewer", "POST", 403),
    ]
    assert lines[0]["path"] == f"/api/keys {key['id']} olga admin"
    assert lines[1]["path"] == f"/api/keys/olga {key['id']} olga admin"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"name": "is required"}),
        (
            {"name": "two words", "role": "owner"},
            {
                "name": "must have 1 to 64 letters, digits, '_', '-', '.' and '@'",
                "role": "must be one of viewer, operator, admin",
            },
        ),
        ([], {"(body)": "must be a JSON object"}),
    ],
)
async def test_every_bad_field_is_named_at_once(
    database: Database, public: Service, body: object, fields: dict[str, str]
) -> None:
    """And nothing is created."""
    boss = await made(database, Access.ADMIN)
    error = error_of(await post(public, body, {**boss, "idempotency-key": "\t" * 3}), 400, "VALIDATION_ERROR")

    problems = {problem["field"]: problem["message"] for problem in error["validationErrors"]}
    assert problems == {"Idempotency-Key": "must have 1 to 255 printable ASCII characters", **fields}
    assert len((await public.ask("GET", "/api/keys", headers=boss)).json["keys"]) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/keys"), ("POST", "/api/keys"), ("DELETE", "/api/keys/admin"), ("GET", "/api/settings")],
)
async def test_only_an_administrator_is_admitted(database: Database, public: Service, method: str, path: str) -> None:
    """An operator cannot make itself one."""
    headers = await made(database, Access.OPERATOR)

    error = error_of(await public.ask(method, path, headers=headers), 403, "FORBIDDEN")

    assert error["details"] == {"neededRole": "admin"}


async def test_the_settings_in_force_are_shown_without_their_secrets(database: Database) -> None:
    """As `corral config` prints them: every one, with its default and its meaning."""
    chosen = settings_of(
        NOVITA_API_KEY="do-not-tell-1",
        DATABASE_URL="postgresql://user:do-not-tell-2@db.example/corral",
        WEBHOOK_SECRET="do-not-tell-3",
        WEBHOOK_URL="https://hooks.example/do-not-tell-4",
        INSTANCE_POLL_INTERVAL=7,
    )
    async with serving(database, engine=CommandEnv(database, settings=chosen).engine) as local:
        found = (await local.ask("GET", "/api/settings")).json["settings"]
    shown = {setting["name"]: setting for setting in found}

    poll = shown["INSTANCE_POLL_INTERVAL"]
    assert (poll["group"], poll["value"], poll["default"]) == ("instances", "7", "30")
    assert all(setting["meaning"] and setting["accepts"] for setting in found)
    assert len(shown) == len(found) > 30
    assert b"do-not-tell" not in msgspec.json.encode(found)
