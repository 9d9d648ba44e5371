"""Pausing and resuming the processing of jobs, as callers see it."""

from __future__ import annotations

from support.http.service import error_of, serving

from corral.base.clock import SystemClock
from corral.domain.access import Access
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database


async def test_an_admin_pauses_and_resumes_and_the_audit_log_says_so(database: Database) -> None:
    """Only an admin: while it lasts, nothing is created, stopped or deleted."""
    _, eye = await create_key(database, name="eye", access=Access.OPERATOR, now=SystemClock().now())
    _, boss = await create_key(database, name="boss", access=Access.ADMIN, now=SystemClock().now())
    admin = {"X-API-Key": boss}
    async with serving(database, local_only=False) as service:
        error_of(await service.ask("POST", "/api/jobs/pause", headers={"X-API-Key": eye}), 403, "FORBIDDEN")
        before = (await service.ask("GET", "/api/jobs/stats", headers=admin)).json
        paused = await service.ask("POST", "/api/jobs/pause", headers=admin)
        again = await service.ask("POST", "/api/jobs/pause", headers=admin)
        during = (await service.ask("GET", "/api/jobs/stats", headers=admin)).json
        resumed = await service.ask("POST", "/api/jobs/resume", headers=admin)
        audit = (await service.ask("GET", "/api/audit?after=2", headers=admin)).json["entries"]

    assert before["paused"] is False
    assert (paused.status, paused.json["paused"], paused.json["pausedBy"]) == (200, True, "boss")
    assert again.json == paused.json
    assert (during["paused"], during["pausedAt"]) == (True, paused.json["pausedAt"])
    assert (resumed.status, resumed.json) == (200, {"paused": False, "pausedAt": None, "pausedBy": None})
    assert [(line["who"], line["path"], line["status"]) for line in audit] == [
        ("eye", "/api/jobs/pause", 403),
        ("boss", "/api/jobs/pause", 200),
        ("boss", "/api/jobs/pause", 200),
        ("boss", "/api/jobs/resume", 200),
    ]
