"""The logins of a machine over HTTP: read from the provider each time, audited, and kept nowhere."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from support.http.served_api_with_provider import ServedApiWithProvider, staged
from support.http.service import error_of, serving

from corral.base.clock import SystemClock
from corral.base.log import configure_logging
from corral.domain.access import Access
from corral.domain.observation.sighting import Sighting
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database


@pytest.fixture
async def shop(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database) as served:
        yield served


async def running(shop: ServedApiWithProvider) -> tuple[str, str]:
    ours, theirs = await shop.managed(sighting=Sighting.RUNNING)
    shop.sim.advance(600)
    return ours, theirs


async def audit_lines(shop: ServedApiWithProvider) -> list[dict[str, Any]]:
    lines = (await shop.api.get("/api/audit")).json["entries"]
    return [line for line in lines if line["method"] in {"GET", "HEAD"}]


async def test_the_logins_of_a_running_machine_are_read_and_audited(shop: ServedApiWithProvider) -> None:
    """A second request reads them again; neither logs, nor tables, nor another route have the password."""
    out = io.StringIO()
    configure_logging("debug", stream=out)
    ours, theirs = await running(shop)
    answer = await shop.api.service.ask(
        "GET", f"/api/instances/{ours}/credentials", headers={"accept-encoding": "gzip"}
    )
    calls = shop.sim.calls()["endpoints"]["get"]["total"]
    by_provider_id = await shop.api.get(f"/api/instances/{theirs}/credentials")
    found = answer.json
    details = await shop.api.get(f"/api/instances/{ours}")

    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert "content-encoding" not in answer.headers
    assert by_provider_id.json == found
    assert shop.sim.calls()["endpoints"]["get"]["total"] == calls + 1
    ssh = found["ssh"]
    assert ssh["command"] == f"ssh -p {ssh['port']} root@{ssh['host']}"
    assert len(ssh["password"]) >= 8
    assert found["webTerminal"]["username"] == "root"
    assert found["webTerminal"]["address"].startswith("http")
    assert found["jupyter"] is None
    lines = await audit_lines(shop)
    assert [(line["method"], line["instanceId"], line["status"]) for line in lines] == [("GET", ours, 200)] * 2
    assert lines[0]["route"] == "/api/instances/{instance_id}/credentials"
    assert ssh["password"] not in out.getvalue() + str(lines) + details.body.decode()
    async with shop.api.env.database.connection() as connection:
        tables = [
            row["name"]
            for row in await connection.fetch(
                "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'"
            )
        ]
        rows = [str(row) for name in tables for row in await connection.fetch(f'SELECT * FROM "{name}"')]  # noqa: S608
    assert rows
    assert [row for row in rows if ssh["password"] in row] == []


@pytest.mark.parametrize("path", ["credentials/", "%63redentials", "credentials?x=/"])
async def test_no_spelling_of_the_path_avoids_the_audit_log(shop: ServedApiWithProvider, path: str) -> None:
    """The router accepts more than one."""
    ours, _ = await running(shop)
    answer = await shop.api.get(f"/api/instances/{ours}/{path}")
    head = await shop.api.service.ask("HEAD", f"/api/instances/{ours}/{path}")

    lines = await audit_lines(shop)
    assert [line["status"] for line in lines] == [answer.status, head.status]
    assert answer.status == 200


async def test_a_machine_without_logins_is_a_conflict(shop: ServedApiWithProvider) -> None:
    """Not created yet, not running, or gone; and audited as well."""
    waiting = (await shop.api.request_create(name="waiting", gpuNum=1)).json["instanceId"]
    ours, theirs = await shop.managed()
    early = await shop.api.get(f"/api/instances/{ours}/credentials")
    uncreated = await shop.api.get(f"/api/instances/{waiting}/credentials")
    await shop.api.env.engine.runtime.cloud.delete(theirs)
    shop.sim.advance(3600)
    gone = await shop.api.get(f"/api/instances/{ours}/credentials")
    unknown = await shop.api.get("/api/instances/inst_nope/credentials")

    for answer in (early, uncreated, gone):
        error_of(answer, 409, "NO_CREDENTIALS_YET")
    error_of(unknown, 404, "INSTANCE_NOT_FOUND")
    assert [line["errorCode"] for line in await audit_lines(shop)] == [
        *["NO_CREDENTIALS_YET"] * 3,
        "INSTANCE_NOT_FOUND",
    ]


async def test_a_refused_caller_is_audited_and_reaches_no_provider(database: Database) -> None:
    """A viewer may not log in."""
    _, eye = await create_key(database, name="eye", access=Access.VIEWER, now=SystemClock().now())
    _, boss = await create_key(database, name="boss", access=Access.ADMIN, now=SystemClock().now())
    async with serving(database, local_only=False) as service:
        refused = await service.ask("GET", "/api/instances/inst_x/credentials", headers={"X-API-Key": eye})
        unknown = await service.ask("GET", "/api/instances/inst_x/credentials")
        lines = (await service.ask("GET", "/api/audit", headers={"X-API-Key": boss})).json["entries"]

    error_of(refused, 403, "FORBIDDEN")
    error_of(unknown, 401, "UNAUTHORIZED")
    assert [(line["who"], line["errorCode"]) for line in lines if line["method"] == "GET"] == [
        ("eye", "FORBIDDEN"),
        ("unknown", "UNAUTHORIZED"),
    ]


async def test_no_login_is_returned_that_cannot_be_audited(shop: ServedApiWithProvider) -> None:
    """The password could not be taken back."""
    ours, _ = await running(shop)
    async with shop.api.env.database.connection() as connection:
        await connection.execute("ALTER TABLE corral_audit RENAME TO gone")
    answer = await shop.api.get(f"/api/instances/{ours}/credentials")

    assert answer.status >= 500
    assert b"password" not in answer.body
