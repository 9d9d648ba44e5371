"""Leases: given with a create, changed by a merge patch, extended, and kept from ending by a use."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.engines.known import NOW
from support.http.served_api import ServedApi, created, opened
from support.http.service import Answer, error_of

from corral.cache.registry import CacheName
from corral.domain.instance import Instance, ProviderId
from corral.domain.leases.lease import EndCause, IdleSummary, LeaseState, Notice
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.timing import iso
from corral.store.session.database import Database

HOUR = timedelta(hours=1)
FULL: dict[str, Any] = {
    "maxDuration": "8h",
    "idle": {"after": "30m", "gpuBelow": 2.5, "cpuBelow": 20.0, "signals": ["gpu", "lastUsed"]},
    "schedule": {"stop": "0 20 * * 1-5", "start": None, "timezone": "Europe/Berlin"},
    "onEnd": "delete",
    "grace": "1m30s",
}
WRONG: list[Any] = [
    "8h",
    [],
    {"maxDuration": "-1h"},
    {"maxDuration": "0s"},
    {"maxDuration": "366d"},
    {"maxDuration": "999999d"},
    {"maxDuration": "8 hours"},
    {"maxDuration": 8},
    {"maxDuration": ""},
    {"idle": "30m"},
    {"idle": {"after": "59s"}},
    {"idle": {"after": "31d"}},
    {"idle": {"after": "30m", "signals": []}},
    {"idle": {"after": "30m", "signals": ["gpu", "gpu"]}},
    {"idle": {"after": "30m", "signals": ["disk"]}},
    {"idle": {"after": "30m", "gpuBelow": 0}},
    {"idle": {"after": "30m", "cpuBelow": 100.1}},
    {"idle": {"after": "30m", "cpuBelow": True}},
    {"schedule": {}},
    {"schedule": {"timezone": "Europe/Berlin"}},
    {"schedule": {"stop": "0 20 * * *", "timezone": "Mars/Olympus"}},
    {"schedule": {"stop": "0 20 * * *", "timezone": "../../etc/passwd"}},
    {"schedule": {"stop": "0 20 * * *", "timezone": "Factory"}},
    {"schedule": {"stop": "0 20 * * *", "timezone": "localtime"}},
    {"schedule": {"stop": "0 20 * * *", "timezone": "posix/Europe/Berlin"}},
    {"schedule": {"stop": "0 20 * * *", "timezone": "right/Europe/Berlin"}},
    {"schedule": {"stop": "0 20 * * *", "timezone": "posixrules"}},
    {"schedule": {"stop": "0 20 * * *", "timezone": "europe/berlin"}},
    {"schedule": {"stop": "*/99999999999 * * * *"}},
    {"schedule": {"stop": "0-59/60 * * * *"}},
    {"schedule": {"stop": "0 */24 * * *"}},
    {"schedule": {"stop": "0 0 */32 * *"}},
    {"schedule": {"stop": "0 0 1 */13 *"}},
    {"schedule": {"stop": "0 0 * * */8"}},
    {"schedule": {"stop": "0 00000000020 * * *"}},
    {"schedule": {"stop": "when it rains"}},
    {"schedule": {"stop": "61 * * * *"}},
    {"schedule": {"stop": "0 0 30 2 *"}},
    {"schedule": {"stop": "* * * * *"}},
    {"schedule": {"start": "@daily"}},
    {"onEnd": "explode"},
    {"grace": "25h"},
    {"grace": "-1m"},
    {"maxDurations": "8h"},
]


async def ready(api: ServedApi, **fields: object) -> str:
    """One that became ready now."""
    made = await created(api, **fields)
    await change(api, made, phase=Phase.READY, ready_at=NOW, provider_id=ProviderId(made[-12:]))
    await change(api, made, observation={"sighting": Sighting.RUNNING})
    return made


async def change(api: ServedApi, instance_id: str, **fields: Any) -> Instance:
    changed = await api.change(instance_id, **fields)
    api.env.caches.drop(CacheName.INSTANCE_DETAILS, instance_id)  # as the notification of the commit does
    return changed


async def state_of(api: ServedApi, instance_id: str) -> LeaseState:
    found = (await api.change(instance_id)).lease
    assert found is not None
    return found


async def give_notice(api: ServedApi, instance_id: str, cause: EndCause) -> None:
    notice = Notice(cause=cause, reason="GPU 0 % for 30 min", given_at=NOW, ends_at=NOW + timedelta(minutes=10))
    await change(api, instance_id, lease=replace(await state_of(api, instance_id), notice=notice))


async def patch(api: ServedApi, instance_id: str, body: object) -> Answer:
    return await api.service.ask("PATCH", f"/api/instances/{instance_id}/lease", json=body)


async def extend(api: ServedApi, instance_id: str, *, key: str | None = None, **body: object) -> Answer:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await api.service.ask("POST", f"/api/instances/{instance_id}/extend", json=body, headers=headers)


async def use(api: ServedApi, instance_id: str, **body: object) -> Answer:
    return await api.service.ask("PUT", f"/api/instances/{instance_id}/last-used", json=body)


async def events_of(api: ServedApi, instance_id: str) -> list[str]:
    found = (await api.get(f"/api/instances/{instance_id}/events")).json["events"]
    return [one["event"].removeprefix("instance.") for one in found]


async def lines_of(api: ServedApi, ending: str) -> list[tuple[str, int]]:
    lines = (await api.get("/api/audit")).json["entries"]
    return [(line["instanceId"], line["status"]) for line in lines if line["path"].endswith(ending)]


async def test_a_lease_is_shown_as_it_was_requested_and_can_be_sent_again(api: ServedApi) -> None:
    """Nothing ends before it is ready; without a lease it is null everywhere."""
    leased, plain = await created(api, lease=FULL), await created(api)
    shown = (await api.get(f"/api/instances/{leased}")).json["lease"]
    sent = (await api.get(f"/api/instances/{leased}/request")).json["lease"]
    again = await created(api, lease=sent)

    assert {name: shown[name] for name in FULL} == FULL == sent
    assert {name: value for name, value in shown.items() if name not in FULL} == dict.fromkeys(
        [
            *("endsAt", "endsBecause", "reason", "notifiedAt", "extendedUntil"),
            *("lastUsedAt", "startsAt", "endedBy", "quiet"),
        ]
    )
    assert (await api.get(f"/api/instances/{again}")).json["lease"] == shown
    assert (await api.get(f"/api/instances/{plain}")).json["lease"] is None
    assert (await api.get(f"/api/instances/{plain}/request")).json["lease"] is None
    listed = (await api.get("/api/instances/comprehensive")).json["instances"]
    assert {one["id"]: one["lease"] for one in listed} == {leased: shown, again: shown, plain: None}


async def test_the_end_of_a_ready_one_is_shown_in_details_and_rows(api: ServedApi) -> None:
    """The earliest; of an idle rule only while it is quiet or notice was given."""
    made = await ready(api, lease={"maxDuration": "8h", "idle": {"after": "30m"}})
    details = (await api.get(f"/api/instances/{made}")).json["lease"]
    (row,) = (await api.get("/api/instances?fields=summary")).json["instances"]
    assert (details["endsAt"], details["endsBecause"]) == (iso(NOW + 8 * HOUR), "max_duration")
    assert details["reason"] == row["endsReason"] == "maximum duration of 8 h"
    assert (row["endsAt"], row["endsBecause"], row["quiet"]) == (details["endsAt"], "max_duration", None)

    seen = IdleSummary(quiet_since=NOW + timedelta(minutes=3), gpu=0.0, cpu=2.0, judged_at=NOW + timedelta(minutes=9))
    await change(api, made, lease=replace(await state_of(api, made), idle=seen))
    quiet = (await api.get(f"/api/instances/{made}")).json["lease"]
    (row,) = (await api.get("/api/instances?fields=summary")).json["instances"]
    assert (quiet["endsAt"], quiet["endsBecause"]) == (iso(NOW + timedelta(minutes=43)), "idle")
    assert quiet["reason"] == "GPU 0 %, CPU 2 % since 00:03 UTC; idle after 30 min"
    assert (
        quiet["quiet"]
        == row["quiet"]
        == {
            "since": "2030-01-01T00:03:00.000Z",
            "after": "30m",
            "gpu": 0.0,
            "cpu": 2.0,
            "judgedAt": "2030-01-01T00:09:00.000Z",
        }
    )

    await give_notice(api, made, EndCause.IDLE)
    noticed = (await api.get(f"/api/instances/{made}")).json["lease"]
    (row,) = (await api.get("/api/instances?fields=summary")).json["instances"]
    assert (noticed["endsAt"], noticed["reason"]) == (iso(NOW + timedelta(minutes=10)), "GPU 0 % for 30 min")
    assert (noticed["notifiedAt"], row["notifiedAt"], noticed["quiet"]) == (iso(NOW), iso(NOW), None)


async def test_defaults_and_the_ceiling_apply_to_creates(database: Database) -> None:
    """What is left out is the default; null is none, but for the ceiling, which also cuts the default."""
    limits = {"CORRAL_DEFAULT_TTL": "8h", "CORRAL_DEFAULT_IDLE": "1h", "CORRAL_MAX_TTL": "24h"}
    async with opened(database, leases=limits) as api:
        for lease, expected in (
            ({}, ("8h", "1h")),
            ({"maxDuration": "9h"}, ("9h", "1h")),
            ({"maxDuration": "24h", "idle": {"after": "2h"}}, ("1d", "2h")),
            ({"maxDuration": None}, ("1d", "1h")),
            ({"idle": None}, ("8h", None)),
            (None, ("1d", None)),
        ):
            made = await created(api, lease=lease)
            found = (await api.get(f"/api/instances/{made}")).json["lease"]
            assert (found["maxDuration"], found["idle"] and found["idle"]["after"]) == expected, lease
        made = await created(api)
        absent = (await api.get(f"/api/instances/{made}")).json["lease"]
        assert (absent["maxDuration"], absent["idle"]["after"]) == ("8h", "1h")
        for wrong in (
            await api.request_create(lease={"maxDuration": "1441m"}),
            await patch(api, made, {"maxDuration": "25h"}),
        ):
            (problem,) = error_of(wrong, 400, "VALIDATION_ERROR")["validationErrors"]
            assert (problem["field"], problem["code"]) == ("lease.maxDuration", "INVALID_LEASE")
            assert "CORRAL_MAX_TTL" in problem["message"]
        assert (await patch(api, made, {"maxDuration": None})).json["lease"]["maxDuration"] == "1d"


@pytest.mark.parametrize("lease", WRONG, ids=str)
async def test_an_invalid_lease_is_refused_by_both_routes(api: ServedApi, lease: Any) -> None:
    """With the code and the name of the part; the lease stays as it was."""
    made = await created(api, lease=FULL)
    patched = lease
    if isinstance(lease, dict) and lease.get("schedule") in ({}, {"timezone": "Europe/Berlin"}):
        patched = {"schedule": {"stop": None}}  # as a patch those are valid: they change no time
    before = (await api.get(f"/api/instances/{made}")).json

    for answer in (await api.request_create(lease=lease), await patch(api, made, patched)):
        problems = error_of(answer, 400, "VALIDATION_ERROR")["validationErrors"]
        assert {problem["code"] for problem in problems} == {"INVALID_LEASE"}
        assert all(problem["field"].partition(".")[0] == "lease" for problem in problems), problems
    assert (await api.get(f"/api/instances/{made}")).json == before
    assert (await api.get("/api/instances")).json["total"] == 1


async def test_every_problem_of_a_request_is_reported_at_once(api: ServedApi) -> None:
    answer = await api.request_create(
        gpuNum=0, lease={"grace": "x", "idle": {"after": "1s"}, "schedule": {"stop": "x"}}
    )
    problems = error_of(answer, 400, "VALIDATION_ERROR")["validationErrors"]

    assert {problem["field"] for problem in problems} == {
        "gpuNum",
        "lease.grace",
        "lease.idle.after",
        "lease.schedule.stop",
    }


async def test_a_patch_changes_only_what_it_names(api: ServedApi) -> None:
    """One event and one audit line for each change; one that changes nothing has no event."""
    made = await created(api, lease=FULL)
    changed = await patch(api, made, {"idle": {"after": "1h"}, "schedule": None})
    shown = (await api.get(f"/api/instances/{made}")).json
    again = await patch(api, made, {"maxDuration": "480m"})
    removed = await patch(api, made, {"maxDuration": None, "idle": None})

    assert changed.status == 200
    assert changed.json == shown | {"cost": None} == again.json
    assert {name: shown["lease"][name] for name in FULL} == {
        **FULL,
        "idle": {**FULL["idle"], "after": "1h"},
        "schedule": None,
    }
    assert (removed.status, removed.json["lease"]) == (200, None)
    assert await events_of(api, made) == ["created", "lease_changed", "lease_changed"]
    assert await lines_of(api, "/lease") == [(made, 200)] * 3
    error_of(await patch(api, "inst_none", {}), 404, "INSTANCE_NOT_FOUND")


async def test_a_patch_gives_an_instance_without_a_lease_one(api: ServedApi) -> None:
    """An idle rule needs its time."""
    made = await created(api)
    error_of(await patch(api, made, {"idle": {"gpuBelow": 1}}), 400, "VALIDATION_ERROR")
    given = await patch(api, made, {"idle": {"after": "10m"}})
    nothing = await patch(api, await created(api), {"idle": None})

    assert given.json["lease"]["idle"]["after"] == "10m"
    assert nothing.json["lease"] is None
    assert await events_of(api, made) == ["created", "lease_changed"]


async def test_a_patch_withdraws_a_notice(api: ServedApi) -> None:
    """Its event follows the one of the change."""
    made = await ready(api, lease={"idle": {"after": "30m"}})
    await give_notice(api, made, EndCause.IDLE)
    changed = await patch(api, made, {"idle": {"after": "1h"}})

    assert (changed.json["lease"]["notifiedAt"], changed.json["lease"]["endsAt"]) == (None, None)
    assert (await events_of(api, made))[-2:] == ["lease_changed", "ending_cancelled"]


async def test_an_extension_counts_from_the_present_end(api: ServedApi) -> None:
    """Each adds to the one before; `until` is the time itself, and never shortens."""
    made = await ready(api, lease={"maxDuration": "8h"})
    await give_notice(api, made, EndCause.MAX_DURATION)
    first = await extend(api, made, by="2h")
    assert first.status == 200
    assert first.json["lease"]["extendedUntil"] == iso(NOW + 2 * HOUR + timedelta(minutes=10))
    assert first.json["lease"]["notifiedAt"] is None
    assert first.json["lease"]["endsAt"] == iso(NOW + 8 * HOUR)
    second = await extend(api, made, by="2h")
    assert second.json["lease"]["endsAt"] == second.json["lease"]["extendedUntil"] == iso(NOW + 10 * HOUR)
    shorter = await extend(api, made, until=iso(NOW + 9 * HOUR))
    (problem,) = error_of(shorter, 400, "VALIDATION_ERROR")["validationErrors"]
    assert problem["field"] == "until"
    fixed = await extend(api, made, until=iso(NOW + 11 * HOUR))

    assert fixed.json["lease"]["endsAt"] == iso(NOW + 11 * HOUR)
    assert fixed.json == (await api.get(f"/api/instances/{made}")).json | {"cost": None}
    assert (await events_of(api, made))[1:] == ["lease_changed", "ending_cancelled", "lease_changed", "lease_changed"]
    assert await lines_of(api, "/extend") == [(made, 200), (made, 200), (made, 400), (made, 200)]


async def test_an_extension_with_a_key_is_made_once(api: ServedApi) -> None:
    """Its response is stored with it; the same key for another extension is refused."""
    made = await ready(api, lease={"maxDuration": "8h"})
    first, again = await extend(api, made, key="one", by="2h"), await extend(api, made, key="one", by="2h")
    at_once = await asyncio.gather(*(extend(api, made, key="two", by="1h") for _ in range(3)))

    assert (again.json, again.headers["idempotent-replayed"]) == (first.json, "true")
    assert {one.json["lease"]["endsAt"] for one in at_once} == {iso(NOW + 11 * HOUR)}
    error_of(await extend(api, made, key="one", by="3h"), 409, "IDEMPOTENCY_KEY_REUSED")
    assert (await events_of(api, made)).count("lease_changed") == 2


async def test_what_cannot_be_extended_is_refused(database: Database) -> None:
    """Nothing that would end it, not running, not found, and beyond the ceiling, which the response names."""
    async with opened(database, leases={"CORRAL_MAX_TTL": "24h"}) as api:
        leased = await ready(api)
        unready = await created(api)
        error_of(await extend(api, unready, by="1h"), 409, "INSTANCE_NOT_RUNNING")
        error_of(await extend(api, "inst_none", by="1h"), 404, "INSTANCE_NOT_FOUND")
        too_long = error_of(await extend(api, leased, by="1m"), 400, "LEASE_TOO_LONG")
        assert too_long["details"]["latest"] == iso(NOW + 24 * HOUR)
        error_of(await extend(api, leased, until=iso(NOW + 24 * HOUR + timedelta(seconds=1))), 400, "LEASE_TOO_LONG")
        assert (await extend(api, leased, until=too_long["details"]["latest"])).status == 200
        error_of(await extend(api, leased, until=iso(NOW)), 400, "VALIDATION_ERROR")
        await change(api, leased, lease=LeaseState())
        error_of(await extend(api, leased, by="1h"), 409, "NO_LEASE")
        await change(api, leased, lease=None)
        error_of(await extend(api, leased, by="1h"), 409, "NO_LEASE")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"by": "1h", "until": "2030-01-02T00:00:00Z"},
        {"by": "0s"},
        {"by": "-1h"},
        {"by": "366d"},
        {"by": 3600},
        {"until": "tomorrow"},
        {"until": "2030-01-02T00:00:00"},
        {"until": "9999-12-31T23:59:59-14:00"},
        {"until": "2029-12-31T23:59:59Z"},
        [],
    ],
    ids=str,
)
async def test_an_invalid_extension_is_refused(api: ServedApi, body: Any) -> None:
    made = await ready(api, lease={"maxDuration": "8h"})
    answer = await api.service.ask("POST", f"/api/instances/{made}/extend", json=body)

    assert answer.status == 400
    assert (await state_of(api, made)).extended_until is None


async def test_extensions_and_a_stop_at_the_same_time_are_one_after_the_other(api: ServedApi) -> None:
    """None is lost: each extension counts, or is refused because the stop came first. The stop always holds."""
    made = await ready(api, lease={"maxDuration": "8h"})
    *extended, stopped = await asyncio.gather(
        *(extend(api, made, by="1h") for _ in range(4)),
        api.service.ask("POST", f"/api/instances/{made}/stop"),
    )
    accepted = [one for one in extended if one.status == 200]

    assert stopped.status == 202
    assert {one.json["lease"]["endsAt"] for one in accepted} == {
        iso(NOW + (9 + n) * HOUR) for n in range(len(accepted))
    }
    for one in extended:
        if one.status != 200:
            error_of(one, 409, "INSTANCE_NOT_RUNNING")
    record = await api.change(made)
    assert (record.goal, record.phase) == (Goal.STOPPED, Phase.STOPPING)
    assert (await events_of(api, made)).count("lease_changed") == len(accepted)


async def test_a_use_is_recorded_and_never_moves_back(api: ServedApi) -> None:
    """A time in the future counts as now. It is neither an event nor in the audit log, which it would flood."""
    made = await ready(api, lease={"maxDuration": "8h"})
    api.env.clock.advance(3600)
    now = iso(api.env.clock.now())
    for body, expected in (
        ({"lastUsedAt": "2030-01-01T00:30:00Z"}, "2030-01-01T00:30:00.000Z"),
        ({"lastUsedAt": "2030-01-01T00:20:00Z"}, "2030-01-01T00:30:00.000Z"),
        ({}, now),
        ({"lastUsedAt": "2031-01-01T00:00:00Z"}, now),
        ({"lastUsedAt": None}, now),
    ):
        answer = await use(api, made, **body)
        assert (answer.status, answer.json) == (200, {"instanceId": made, "lastUsedAt": expected})
    empty = await api.service.ask("PUT", f"/api/instances/{made}/last-used")

    assert (empty.status, empty.json["lastUsedAt"]) == (200, now)
    assert (await api.get(f"/api/instances/{made}")).json["lease"]["lastUsedAt"] == now
    assert await events_of(api, made) == ["created"]
    assert await lines_of(api, "/last-used") == []
    for wrong in ({"lastUsedAt": "noon"}, {"lastUsedAt": 5}, {"lastUsedAt": "2030-01-01T00:00:00"}):
        error_of(await use(api, made, **wrong), 400, "VALIDATION_ERROR")
    error_of(await use(api, "inst_none"), 404, "INSTANCE_NOT_FOUND")
    assert await lines_of(api, "/last-used") == [(made, 400)] * 3 + [("inst_none", 404)], "what is refused is"


@pytest.mark.parametrize(
    ("phase", "goal"), [(Phase.TERMINATED, Goal.GONE), (Phase.DELETING, Goal.GONE)], ids=["terminated", "deleting"]
)
async def test_the_lease_of_an_instance_that_is_deleted_is_not_changed(
    api: ServedApi, phase: Phase, goal: Goal
) -> None:
    """It would have no effect, and the answer would say that it has one."""
    made = await ready(api, lease={"maxDuration": "8h"})
    await change(api, made, phase=phase, goal=goal)

    error = error_of(await patch(api, made, {"maxDuration": "1h"}), 409, "INSTANCE_NOT_RUNNING")

    assert error["details"] == {"instanceId": made, "status": phase.value}
    assert (await state_of(api, made)).lease.max_duration == 8 * HOUR


async def test_a_use_withdraws_a_notice_of_idleness_alone(api: ServedApi) -> None:
    """And only if the rule looks at uses."""
    for signals, cause, is_withdrawn in (
        (["gpu", "lastUsed"], EndCause.IDLE, True),
        (["gpu"], EndCause.IDLE, False),
        (["gpu", "lastUsed"], EndCause.MAX_DURATION, False),
    ):
        made = await ready(api, lease={"maxDuration": "8h", "idle": {"after": "30m", "signals": signals}})
        await give_notice(api, made, cause)
        await use(api, made)
        shown = (await api.get(f"/api/instances/{made}")).json["lease"]
        assert (shown["notifiedAt"] is None) == is_withdrawn, (signals, cause)
        assert await events_of(api, made) == ["created", *(["ending_cancelled"] if is_withdrawn else [])]


async def test_a_use_of_an_instance_without_a_lease_is_kept_for_one(api: ServedApi) -> None:
    """It has no lease until it is given one."""
    made = await ready(api)
    answer = await use(api, made)
    assert (answer.status, answer.json["lastUsedAt"]) == (200, iso(NOW))
    assert (await api.get(f"/api/instances/{made}")).json["lease"] is None
    error_of(await extend(api, made, by="1h"), 409, "NO_LEASE")

    assert (await patch(api, made, {"maxDuration": "8h"})).json["lease"]["lastUsedAt"] == iso(NOW)
