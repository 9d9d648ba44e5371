"""Counting leases and judging them all now: the routes of the original's auto-stop."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.engines.known import NOW
from support.http.served_api import ServedApi
from support.http.service import error_of

from corral.domain.instance import ProviderId
from corral.domain.leases.lease import EndCause, LeaseState, Notice
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.timing import iso
from corral.store.session.database import Database

TRIGGER, STATS = "/api/instances/auto-stop/trigger", "/api/instances/auto-stop/stats"


async def ready(api: ServedApi, name: str, lease: object, **fields: Any) -> str:
    made: str = (await api.request_create(name=name, lease=lease)).json["instanceId"]
    place = {"provider_id": ProviderId(made[-12:]), "observation": {"sighting": Sighting.RUNNING}}
    await api.change(made, **{"phase": Phase.READY, "ready_at": NOW, **place, **fields})
    return made


async def put_state(api: ServedApi, instance_id: str, **fields: Any) -> None:
    state = (await api.change(instance_id)).lease
    assert state is not None
    await api.change(instance_id, lease=replace(state, **fields))


async def contents(database: Database) -> dict[str, str]:
    """A digest of each table's rows."""
    async with database.connection() as connection:
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
        )
        rows = "SELECT md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '')) FROM {} AS t"
        return {one["name"]: await connection.fetchval(rows.format(one["name"])) for one in tables}


async def test_leases_are_counted_by_kind(api: ServedApi) -> None:
    """A terminated instance, and one without a lease, do not count."""
    await api.request_create(name="plain")
    await ready(api, "gone", {"maxDuration": "8h"}, phase=Phase.TERMINATED, goal=Goal.GONE)
    both = await ready(api, "both", {"maxDuration": "8h", "idle": {"after": "30m"}})
    extended = await ready(api, "extended", {"schedule": {"stop": "0 20 * * *"}})
    stopped = await ready(api, "stopped", {"maxDuration": "1h"}, phase=Phase.EXITED, goal=Goal.STOPPED)
    notice = Notice(cause=EndCause.IDLE, reason="GPU 0 %", given_at=NOW, ends_at=NOW + timedelta(minutes=10))
    await put_state(api, both, notice=notice)
    await put_state(api, extended, extended_until=NOW + timedelta(hours=1))
    await put_state(api, stopped, ended_by=EndCause.MAX_DURATION)
    used = await ready(api, "used", None)
    await api.change(used, lease=LeaseState(last_used_at=NOW))

    answer = await api.get(STATS)

    assert (answer.status, answer.json) == (
        200,
        {
            "leases": 3,
            "maxDuration": 2,
            "idle": 1,
            "schedule": 1,
            "endingSoon": 1,
            "extended": 1,
            "endedByLease": 1,
            "nextEndAt": iso(NOW + timedelta(minutes=10)),
        },
    )


@pytest.mark.parametrize(
    "body",
    [None, {}, {"dryRun": True}, {"dryRun": None}, {"dryRun": 0}, {"dryRun": "false"}, {"dryrun": False}],
    ids=str,
)
async def test_a_dry_run_reports_and_writes_nothing(api: ServedApi, database: Database, body: Any) -> None:
    """Every request is dry but the one that says false; not one row of any table differs."""
    due = await ready(api, "due", {"maxDuration": "8h"})
    await ready(api, "later", {"maxDuration": "9h"})
    api.env.clock.advance(8 * 3600)
    before = await contents(database)
    answer = await api.service.ask("POST", TRIGGER, **({} if body is None else {"json": body}))

    assert answer.status == 200
    assert answer.json == {
        "dryRun": True,
        "judged": 2,
        "ending": [
            {
                "instanceId": due,
                "name": "due",
                "cause": "max_duration",
                "reason": "maximum duration of 8 h",
                "endsAt": iso(NOW + timedelta(hours=8, minutes=10)),
            }
        ],
    }
    assert await contents(database) == before


async def test_a_trigger_requests_the_reconcile_of_what_is_due(api: ServedApi) -> None:
    """It ends nothing itself: the reconcile judges again. The request is in the audit log."""
    due = await ready(api, "due", {"maxDuration": "8h"})
    later = await ready(api, "later", {"maxDuration": "9h"})
    api.env.clock.advance(8 * 3600)
    before = await api.env.counts()
    answer = await api.service.ask("POST", TRIGGER, json={"dryRun": False})

    assert (answer.json["dryRun"], [one["instanceId"] for one in answer.json["ending"]]) == (False, [due])
    after = await api.env.counts()
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {"pgqueuer": 1}
    jobs = (await api.get(f"/api/jobs?instanceId={due}")).json["jobs"]
    assert [job["type"] for job in jobs].count("monitor_instance") == 1
    assert "monitor_instance" not in [j["type"] for j in (await api.get(f"/api/jobs?instanceId={later}")).json["jobs"]]
    lines = [line for line in (await api.get("/api/audit")).json["entries"] if line["path"] == TRIGGER]
    assert [(line["status"], line["instanceId"]) for line in lines] == [(200, None)]


async def test_a_body_that_is_not_json_is_refused(api: ServedApi) -> None:
    """It may have been meant as false."""
    headers = {"Content-Type": "application/json"}
    answer = await api.service.ask("POST", TRIGGER, data=b"{dryRun: false}", headers=headers)
    error_of(answer, 400, "INVALID_JSON")
