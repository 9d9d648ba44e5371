"""Starting, stopping, restarting and deleting instances, as callers see it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from support.http.served_api import ServedApi
from support.http.service import Answer, error_of

from corral.domain.instance import ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import OperationStatus
from corral.store.tables import operations


async def at_rest(api: ServedApi, phase: Phase, sighting: Sighting, name: str = "trainer") -> str:
    """An instance that is in *phase*, with nothing under way."""
    made = (await api.request_create(name=name)).json
    instance_id = str(made["instanceId"])
    async with api.env.database.transaction() as connection:
        current = await operations.load(connection, made["operationId"])
        assert current is not None
        await connection.execute(
            "UPDATE corral_operations SET status = $2 WHERE id = $1", current.id, OperationStatus.COMPLETED.value
        )
    await api.change(instance_id, phase=phase, observation={"sighting": sighting}, provider_id=ProviderId(f"p-{name}"))
    return instance_id


async def act(
    api: ServedApi, path: str, body: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None
) -> Answer:
    return await api.service.ask("POST", f"/api/instances{path}", json=body, headers=headers)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize(
    ("verb", "phase", "sighting", "status"),
    [
        ("start", Phase.EXITED, Sighting.EXITED, "starting"),
        ("stop", Phase.READY, Sighting.RUNNING, "stopping"),
        ("delete", Phase.READY, Sighting.RUNNING, "deleting"),
    ],
)
async def test_what_is_asked_is_answered_at_once(
    api: ServedApi, verb: str, phase: Phase, sighting: Sighting, status: str, *, by_name: bool
) -> None:
    """By id or by name, with everything a caller needs to follow it."""
    instance_id = await at_rest(api, phase, sighting)
    if by_name:
        answer = await act(api, f"/{verb}", {"instanceName": "trainer"})
    elif verb == "delete":
        answer = await api.service.ask("DELETE", f"/api/instances/{instance_id}")
    else:
        answer = await act(api, f"/{instance_id}/{verb}")
    word = "deletion" if verb == "delete" else verb
    expected = {
        "instanceId": instance_id,
        "novitaInstanceId": "p-trainer",
        "status": status,
        "message": f"Instance {word} initiated successfully",
        "operationId": answer.json["operationId"],
    }

    assert answer.status == 202
    assert answer.json == expected | ({"estimatedReadyTime": "2030-01-01T00:04:00.000Z"} if verb == "start" else {})
    shown = (await api.get(f"/api/operations/{answer.json['operationId']}")).json
    assert (shown["kind"], shown["status"]) == (verb, "initiated")
    assert ("startRequested" in shown["phases"]) == (verb == "start")


async def test_a_restart_is_answered_at_once(api: ServedApi) -> None:
    """Also by the provider's id."""
    await at_rest(api, Phase.READY, Sighting.RUNNING)
    answer = await act(api, "/p-trainer/restart")

    assert (answer.status, answer.json["status"]) == (202, "restarting")
    assert "estimatedReadyTime" in answer.json


async def test_twenty_starts_at_once_are_one_operation(api: ServedApi) -> None:
    """Nineteen get its operation."""
    instance_id = await at_rest(api, Phase.EXITED, Sighting.EXITED)
    answers = await asyncio.gather(*(act(api, f"/{instance_id}/start") for _ in range(20)))
    heard = [answer for answer in answers if answer.status == 202]
    code = "STARTUP_OPERATION_IN_PROGRESS"
    refused = [error_of(answer, 409, code) for answer in answers if answer.status != 202]

    assert (len(heard), len(refused)) == (1, 19)
    assert [error["details"] for error in refused] == 19 * [
        {
            "instanceId": instance_id,
            "operationId": heard[0].json["operationId"],
            "kind": "start",
            "currentPhase": "starting",
        }
    ]


@pytest.mark.parametrize(
    ("verb", "phase", "code"),
    [
        ("start", Phase.READY, "INSTANCE_NOT_STARTABLE"),
        ("restart", Phase.EXITED, "INSTANCE_NOT_STARTABLE"),
        ("stop", Phase.CREATING, "INSTANCE_NOT_STOPPABLE"),
    ],
)
async def test_what_cannot_be_done_now_says_the_status(api: ServedApi, verb: str, phase: Phase, code: str) -> None:
    """A 400: the request must change, not only wait."""
    sighting = Sighting.EXITED if phase is Phase.EXITED else Sighting.RUNNING
    instance_id = await at_rest(api, phase, sighting)
    error = error_of(await act(api, f"/{instance_id}/{verb}"), 400, code)

    assert error["details"] == {"instanceId": instance_id, "status": phase.value}
    assert phase.value in error["message"]


@pytest.mark.parametrize("by_name", [False, True])
async def test_a_stop_of_what_is_stopped_is_answered_with_its_status(api: ServedApi, *, by_name: bool) -> None:
    """A script that stops twice must not fail the second time; nothing is recorded, so there is no new operation."""
    instance_id = await at_rest(api, Phase.EXITED, Sighting.EXITED)
    path, body = ("/stop", {"instanceName": "trainer"}) if by_name else (f"/{instance_id}/stop", None)
    before = await api.env.counts()
    answer = await act(api, path, body)

    assert (answer.status, answer.json["status"]) == (200, "exited")
    assert answer.json["message"] == "Instance is already stopped"
    assert await api.env.counts() == before


async def test_a_second_stop_is_answered_with_the_first_operation(api: ServedApi) -> None:
    """It is stopping; a refusal would only make callers try again."""
    instance_id = await at_rest(api, Phase.READY, Sighting.RUNNING)
    first = await act(api, f"/{instance_id}/stop")
    second = await act(api, f"/{instance_id}/stop")

    assert (first.status, second.status) == (202, 200)
    assert (second.json["status"], second.json["operationId"]) == ("stopping", first.json["operationId"])


async def test_a_machine_that_stops_by_itself_can_still_be_asked_to_stop(api: ServedApi) -> None:
    """It may come up again; only a stop that was asked for keeps it down."""
    instance_id = await at_rest(api, Phase.STOPPING, Sighting.STOPPING)
    answer = await act(api, f"/{instance_id}/stop")

    assert (answer.status, answer.json["status"]) == (202, "stopping")


async def test_two_of_one_name_are_a_conflict_that_lists_both(api: ServedApi) -> None:
    """Deleting the wrong one would be dear."""
    ids = {await at_rest(api, Phase.READY, Sighting.RUNNING)}
    second = await at_rest(api, Phase.READY, Sighting.RUNNING, "other")
    async with api.env.database.connection() as connection:
        await connection.execute("UPDATE corral_instances SET name = 'trainer' WHERE id = $1", second)
    error = error_of(await act(api, "/delete", {"instanceName": "trainer"}), 409, "NAME_AMBIGUOUS")

    assert set(error["details"]["instanceIds"]) == ids | {second}


@pytest.mark.parametrize("verb", ["start", "stop", "delete"])
async def test_an_unknown_name_or_id_is_not_found(api: ServedApi, verb: str) -> None:
    """Whichever way it is asked."""
    by_name = await act(api, f"/{verb}", {"instanceName": "missing"})
    by_id = await act(api, "/inst_missing/start")

    for answer in (by_name, by_id):
        error_of(answer, 404, "INSTANCE_NOT_FOUND")
    assert by_name.json["error"]["message"] != by_id.json["error"]["message"]


async def test_all_problems_of_a_body_are_reported_at_once(api: ServedApi) -> None:
    """Each field by its own code."""
    instance_id = await at_rest(api, Phase.EXITED, Sighting.EXITED)
    body = {"healthCheckConfig": {"timeoutMs": 1}, "targetPort": 0, "webhookUrl": "ftp://x", "instanceName": 5}
    answer = await act(api, f"/{instance_id}/start", body)

    error = error_of(answer, 400, "VALIDATION_ERROR")
    assert {(p["field"], p["code"]) for p in error["validationErrors"]} == {
        ("healthCheckConfig.timeoutMs", "INVALID_HEALTH_CHECK"),
        ("targetPort", "INVALID_HEALTH_CHECK"),
        ("webhookUrl", "INVALID_WEBHOOK_URL"),
        ("instanceName", "INVALID_INSTANCE_NAME"),
    }


async def test_the_check_goes_by_two_names(api: ServedApi) -> None:
    """The original system used one to create and the other to start; both at once are refused."""
    instance_id = await at_rest(api, Phase.EXITED, Sighting.EXITED)
    both = {"healthCheck": {"targetPort": 81}, "healthCheckConfig": {"targetPort": 82}}
    created = await api.request_create(healthCheckConfig={"targetPort": 81})
    await act(api, f"/{instance_id}/start", {"healthCheck": {"targetPort": 82}})
    made = (await api.env.queries.instance(created.json["instanceId"])).instance
    started = (await api.env.queries.instance(instance_id)).instance

    assert (made.health_spec.target_port, started.health_spec.target_port) == (81, 82)
    for refused in (await api.request_create(**both), await act(api, f"/{instance_id}/restart", both)):
        error = error_of(refused, 400, "VALIDATION_ERROR")
        assert [(p["field"], p["code"]) for p in error["validationErrors"]] == [
            ("healthCheckConfig", "INVALID_HEALTH_CHECK")
        ]


@pytest.mark.parametrize("body", [{}, {"instanceName": None}, {"instanceName": ""}])
async def test_by_name_needs_a_name(api: ServedApi, body: dict[str, Any]) -> None:
    """And says so by the field."""
    error = error_of(await act(api, "/stop", body), 400, "VALIDATION_ERROR")

    assert [p["code"] for p in error["validationErrors"]] == ["INVALID_INSTANCE_NAME"]


async def test_a_start_uses_its_own_health_check_and_webhook(api: ServedApi) -> None:
    """For this operation; the order stands."""
    instance_id = await at_rest(api, Phase.EXITED, Sighting.EXITED)
    body = {"healthCheckConfig": {"timeoutMs": "2000"}, "targetPort": 81}
    await act(api, f"/{instance_id}/start", body)
    instance = (await api.env.queries.instance(instance_id)).instance

    assert (instance.health_spec.timeout_ms, instance.health_spec.target_port) == (2000, 81)
    assert instance.request.health.target_port is None
    (job,) = [job for job in await api.env.queue.find() if job.type == "monitor_startup"]
    assert job.payload == {
        "instanceId": instance_id,
        "novitaInstanceId": "p-trainer",
        "startTime": job.payload["startTime"],
        "maxWaitTime": 600_000,
        "correlationId": job.payload["correlationId"],
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(job.payload["startTime"]))


async def test_a_start_with_a_key_happens_once(api: ServedApi) -> None:
    """Repeated, it gets the first answer; with another body, a refusal."""
    instance_id = await at_rest(api, Phase.EXITED, Sighting.EXITED)
    key = {"Idempotency-Key": "k"}
    first = await act(api, f"/{instance_id}/start", headers=key)
    again = await act(api, f"/{instance_id}/start", headers=key)
    other = await act(api, f"/{instance_id}/stop", headers=key)

    assert (first.status, again.status) == (202, 202)
    assert again.json == first.json
    assert again.headers["idempotent-replayed"] == "true"
    error_of(other, 409, "IDEMPOTENCY_KEY_REUSED")


async def test_a_stop_takes_the_place_of_a_start(api: ServedApi) -> None:
    """The start is cancelled, and says so."""
    instance_id = await at_rest(api, Phase.EXITED, Sighting.EXITED)
    start = (await act(api, f"/{instance_id}/start")).json
    stop = await act(api, f"/{instance_id}/stop")
    again = await act(api, f"/{instance_id}/stop")
    instance = (await api.env.queries.instance(instance_id)).instance

    assert (stop.status, instance.goal) == (202, Goal.STOPPED)
    assert (await api.get(f"/api/operations/{start['operationId']}")).json["status"] == "cancelled"
    assert (again.status, again.json["operationId"]) == (200, stop.json["operationId"])
