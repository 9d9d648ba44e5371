"""The audit log: every call that could change something, its caller, and its result."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from support.clock.clocks import SteppedClock
from support.http.served_api import CREATE_BODY
from support.http.served_api import opened as opened_front
from support.http.service import Service, serving

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.base.settings.configuration import load
from corral.cache.registry import CacheRegistry
from corral.domain.access import LOCAL, Access
from corral.domain.audit import AuditEntry
from corral.engine.auth.api_keys import create_key
from corral.engine.auth.audit_log import UNKNOWN_CALLER_LINES_A_MINUTE, AuditLog
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.store.session.database import Database

SECRET = "whsec-do-not-tell"


async def lines(service: Service, query: str = "", **headers: str) -> list[dict[str, Any]]:
    answer = await service.ask("GET", f"/api/audit{query}", headers=headers)
    assert answer.status == 200, answer
    entries: list[dict[str, Any]] = answer.json["entries"]
    return entries


async def test_an_audit_line_has_caller_action_address_and_result(database: Database) -> None:
    """By the time the answer is there, its line is too; nothing of the body or the query is in it."""
    key, text = await create_key(database, name="ci", access=Access.OPERATOR, now=SystemClock().now())
    sent = {"X-API-Key": text, "X-Request-ID": "order-7"}
    async with opened_front(database) as api:
        ask = api.service.ask
        body = {**CREATE_BODY, "name": SECRET}
        made = await ask("POST", f"/api/instances?note={SECRET}", json=body, headers=sent)
        bad = await ask("POST", "/api/instances", json={"name": SECRET}, headers={"X-API-Key": text})
        gone = await ask("DELETE", f"/api/instances/{made.json['instanceId']}", headers={"X-API-Key": text})
        found = await lines(api.service)

    assert (made.status, bad.status, gone.status) == (201, 400, 202)
    instance_id = made.json["instanceId"]
    assert found[0]["method"] == "CLI"
    assert (found[0]["who"], found[0]["path"]) == ("command line", f"{key.id} ci operator")
    reported = [
        (line["method"], line["route"], line["path"], line["instanceId"], line["status"], line["errorCode"])
        for line in found[1:]
    ]
    assert reported == [
        ("POST", "/api/instances", "/api/instances", instance_id, 201, None),
        ("POST", "/api/instances", "/api/instances", None, 400, "VALIDATION_ERROR"),
        ("DELETE", "/api/instances/{instance_id}", f"/api/instances/{instance_id}", instance_id, 202, None),
    ]
    assert {(line["who"], line["keyId"], line["role"], line["address"]) for line in found[1:]} == {
        ("ci", key.id, "operator", "127.0.0.1")
    }
    assert found[1]["requestId"] == "order-7"
    assert SECRET not in str(found)
    assert text not in str(found)


async def test_refused_calls_are_audited_too(database: Database) -> None:
    """Refused by the route's role, the key, the edge or the framework."""
    _, text = await create_key(database, name="eye", access=Access.VIEWER, now=SystemClock().now())
    _, boss = await create_key(database, name="boss", access=Access.ADMIN, now=SystemClock().now())
    async with serving(database, local_only=False) as service:
        await service.ask("POST", "/api/jobs/cleanup")
        await service.ask("POST", "/api/jobs/cleanup", headers={"X-API-Key": "wrong"})
        await service.ask("POST", "/api/jobs/cleanup", headers={"X-API-Key": text})
        await service.ask("DELETE", "/nope%00%0a", headers={"X-API-Key": text})
        await service.ask("PUT", "/api/jobs", headers={"X-API-Key": text})
        await service.ask("POST", "/api/jobs/cleanup", headers={"X-API-Key": text}, data=b"x")
        await service.ask("GET", "/api/jobs", headers={"X-API-Key": text})
        found = await lines(service, "?after=2", **{"X-API-Key": boss})

    assert [(line["who"], line["role"], line["method"], line["status"], line["errorCode"]) for line in found] == [
        ("unknown", None, "POST", 401, "UNAUTHORIZED"),
        ("unknown", None, "POST", 401, "UNAUTHORIZED"),
        ("eye", "viewer", "POST", 403, "FORBIDDEN"),
        ("eye", "viewer", "DELETE", 404, "NOT_FOUND"),
        ("eye", "viewer", "PUT", 405, "METHOD_NOT_ALLOWED"),
        ("eye", "viewer", "POST", 415, "UNSUPPORTED_MEDIA_TYPE"),
    ]
    assert found[3]["path"] == "/nope??"


async def test_the_audit_log_is_read_page_by_page_and_filtered(database: Database) -> None:
    """`after` is the last number seen; a filter keeps the numbers."""
    async with opened_front(database) as api:
        made = [(await api.request_create(name=f"n{number}")).json["instanceId"] for number in range(3)]
        first = (await api.get("/api/audit?limit=2")).json
        rest = (await api.get(f"/api/audit?after={first['nextAfter']}")).json
        of_one = (await api.get(f"/api/audit?instanceId={made[2]}")).json
        of_local = (await api.get("/api/audit?who=local")).json
        of_unknown = (await api.get("/api/audit?who=unknown")).json

    assert [line["instanceId"] for line in first["entries"] + rest["entries"]] == made
    assert [line["instanceId"] for line in of_one["entries"]] == [made[2]]
    assert len(of_local["entries"]) == 3
    assert (of_unknown["entries"], of_unknown["nextAfter"]) == ([], 0)


async def test_the_audit_log_is_read_from_its_end(database: Database) -> None:
    """`last` gives the newest lines, oldest first, and `before` continues towards the start; filters apply."""
    async with opened_front(database) as api:
        made = [(await api.request_create(name=f"n{number}")).json["instanceId"] for number in range(5)]
        newest = (await api.get("/api/audit?last=2")).json
        before = newest["entries"][0]["number"]
        older = (await api.get(f"/api/audit?last=2&before={before}")).json
        of_one = (await api.get(f"/api/audit?last=2&instanceId={made[0]}")).json
        oldest = (await api.get(f"/api/audit?before={older['entries'][0]['number']}")).json

    assert [line["instanceId"] for line in newest["entries"]] == made[3:]
    assert [line["instanceId"] for line in older["entries"]] == made[1:3]
    assert [line["instanceId"] for line in of_one["entries"]] == made[:1]
    assert [line["instanceId"] for line in oldest["entries"]] == made[:1]
    assert (newest["limit"], newest["nextAfter"]) == (2, newest["entries"][-1]["number"])


async def test_many_lines_share_few_commits(database: Database) -> None:
    """Those that come while a commit is under way go together into the next."""
    trail = AuditLog(database, SystemClock(), Metrics())
    await asyncio.gather(*(trail.record(an_entry(f"/{number}")) for number in range(500)))
    async with database.connection() as connection:
        commits = await connection.fetchval("SELECT count(DISTINCT xmin::text) FROM corral_audit")

    assert [line.path for line in await trail.page(after=0, limit=500)] == [f"/{number}" for number in range(500)]
    assert commits <= 5


async def test_unauthenticated_callers_write_a_limited_number_of_lines(database: Database) -> None:
    """The rest is counted; calls with a valid key are always recorded."""
    clock, metrics = SteppedClock(), Metrics()
    trail = AuditLog(database, clock, metrics)
    await asyncio.gather(*(trail.record(an_entry("/x", known=False)) for _ in range(UNKNOWN_CALLER_LINES_A_MINUTE + 7)))
    await trail.record(an_entry("/known"))
    clock.advance(60)
    await trail.record(an_entry("/later", known=False))
    async with database.connection() as connection:
        kept = await connection.fetchval("SELECT count(*) FROM corral_audit")

    assert kept == UNKNOWN_CALLER_LINES_A_MINUTE + 2
    assert metrics.registry.get_sample_value("corral_audit_unwritten_total", {"reason": "strangers"}) == 7


async def test_an_answer_is_given_although_its_line_cannot_be_written(database: Database) -> None:
    """A change outside the database has happened; the log and a counter show what is missing."""
    caches = CacheRegistry(load({}).settings.caches, SystemClock())
    async with serving(database, caches=CacheInvalidation(caches, database)) as service:
        async with database.connection() as connection:
            await connection.execute("DROP TABLE corral_audit")
        with structlog.testing.capture_logs() as logged:
            answer = await service.ask("POST", "/api/cache/clear")

        metrics = service.engine.runtime.metrics.registry
        assert (answer.status, answer.json) == (200, {"removed": 0})
        assert metrics.get_sample_value("corral_audit_unwritten_total", {"reason": "failed"}) == 1
    (reported,) = [entry for entry in logged if entry["event"] == "audit.unwritten"]
    assert (reported["who"], reported["path"], reported["status"]) == ("local", "/api/cache/clear", 200)


@pytest.mark.parametrize(
    "query", ["?after=-1", "?limit=0", "?limit=501", "?last=0", "?before=0", "?who=%00", "?instanceId=%27"]
)
async def test_a_bad_query_is_reported(database: Database, query: str) -> None:
    """As everywhere."""
    async with serving(database) as service:
        assert (await service.ask("GET", f"/api/audit{query}")).status == 400


def an_entry(path: str, *, known: bool = True, at: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> AuditEntry:
    return AuditEntry(
        at=at, caller=LOCAL if known else None, method="POST", path=path, address="::1", status=200, request_id="r"
    )
