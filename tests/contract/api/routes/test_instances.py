"""Creating, reading and deleting instances, as callers see it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from support.clock.clocks import SteppedClock
from support.engines.known import BILLED
from support.http.served_api import CREATE_BODY, ServedApi, opened
from support.http.service import error_of
from support.provider.guarding import guarding

from corral.domain.errors import NEXT_STEPS, CircuitOpenError, Failure
from corral.domain.health.checks import EndpointHealth, HealthReport, ProbeFailure
from corral.domain.health.network_faults import FaultCategory
from corral.domain.instance import CreateWait, LoginMethods, ProviderId, RejectedCandidate
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Endpoint, Sighting
from corral.domain.observation.spot import Spot
from corral.domain.placement.catalog import BillingMode, PortKind
from corral.store.session.database import Database
from novitasim.testing import start_simulator

NOW = "2030-01-01T00:00:00.000Z"


async def test_a_create_is_answered_at_once(api: ServedApi) -> None:
    """With everything a caller needs to follow it."""
    answer = await api.request_create()
    body = answer.json

    assert answer.status == 201
    assert answer.headers["content-type"] == "application/json"
    assert body == {
        "instanceId": body["instanceId"],
        "status": "creating",
        "message": "Instance creation initiated successfully",
        "estimatedReadyTime": "2030-01-01T00:04:00.000Z",
        "operationId": body["operationId"],
        "region": "CN-HK-01",
        "productId": "4090.16c62g",
        "price": 0.36,
    }
    assert body["instanceId"].startswith("inst_")
    assert body["operationId"].startswith("op_")


async def test_a_new_instance_is_shown_in_full(api: ServedApi) -> None:
    """Every field is there from the beginning; what is not known is null."""
    made = (await api.request_create()).json
    answer = await api.get(f"/api/instances/{made['instanceId']}")

    assert answer.status == 200
    assert answer.json == {
        "id": made["instanceId"],
        "name": "trainer",
        "status": "creating",
        "gpuNum": 2,
        "rootfsSize": 60,
        "region": "CN-HK-01",
        "productId": "4090.16c62g",
        "productName": "RTX 4090 24GB",
        "templateId": "204511",
        "image": None,
        "imageAuthId": None,
        "command": None,
        "entrypoint": None,
        "env": {},
        "ports": None,
        "volumes": [],
        "minCuda": None,
        "secretNames": [],
        "labels": {},
        "protected": False,
        "billingMode": "spot",
        "price": 0.36,
        "billed": False,
        "portMappings": [],
        "connectionDetails": {"ssh": None, "jupyter": None, "webTerminal": None},
        "novitaInstanceId": None,
        "createdAt": NOW,
        "createdBy": "local",
        "startedAt": None,
        "readyAt": None,
        "stoppedAt": None,
        "dataKeptUntil": None,
        "lease": None,
        "estimatedReadyTime": "2030-01-01T00:04:00.000Z",
        "lastSeenAt": None,
        "stale": False,
        "reason": None,
        "error": None,
        "spot": None,
        "healthCheck": None,
        "operation": {
            "operationId": made["operationId"],
            "kind": "create",
            "status": "initiated",
            "phases": {"startRequested": NOW},
        },
        "allowedActions": ["delete"],
        "placement": {"region": "CN-HK-01", "productId": "4090.16c62g", "price": 0.36, "tried": []},
        "cost": {"soFar": 0.0, "low": 0.0, "high": 0.0, "perHour": 0.0},
    }


async def test_what_the_engine_learns_is_shown(api: ServedApi) -> None:
    """Endpoints, ways in, health, failures and what was tried, by the provider's id."""
    made, now = (await api.request_create()).json, api.env.clock.now()
    failure = ProbeFailure(category=FaultCategory.BAD_GATEWAY, message="answered with status 502")
    await api.change(
        made["instanceId"],
        provider_id=ProviderId("p-1"),
        phase=Phase.FAILED,
        observation={"sighted_at": now, "meter": BILLED},
        started_at=now,
        endpoints=(Endpoint(port=8080, kind=PortKind.HTTP, address="http://h/"),),
        access=LoginMethods(ssh="ssh root@h", web_terminal="http://t/"),
        failure=Failure(code="HEALTH_CHECK_TIMEOUT", message="too slow"),
        tried=(
            RejectedCandidate(
                region="AS-SGP-02",
                product_id="x",
                micro_usd_per_gpu=100_000,
                reason="out of stock",
                billing_mode=BillingMode.SPOT,
            ),
        ),
        health=HealthReport(
            endpoints=(
                EndpointHealth(
                    port=8080, kind=PortKind.HTTP, address="http://h/", response_time_ms=12, last_checked_at=now,
                    error=failure,
                ),
            ),
            first_checked_at=now,
            last_checked_at=now,
            checks=3,
        ),
    )  # fmt: skip
    shown = (await api.get("/api/instances/p-1")).json

    assert (shown["id"], shown["novitaInstanceId"], shown["status"]) == (made["instanceId"], "p-1", "failed")
    assert shown["portMappings"] == [{"port": 8080, "endpoint": None, "type": "http"}]
    assert shown["connectionDetails"] == {"ssh": None, "jupyter": None, "webTerminal": None}
    step = "It runs, but its ports did not respond in time"
    assert shown["error"].pop("nextStep").startswith(step)
    assert shown["error"] == {"code": "HEALTH_CHECK_TIMEOUT", "message": "too slow"}
    assert (shown["price"], shown["billed"]) == (0.36, True)  # failed, and not seen stopped
    assert shown["allowedActions"] == ["stop", "delete"]  # its create is still recorded as under way
    assert shown["placement"]["tried"] == [
        {"region": "AS-SGP-02", "productId": "x", "price": 0.2, "reason": "out of stock", "billingMode": "spot"}
    ]
    assert shown["estimatedReadyTime"] is None
    assert shown["healthCheck"] == {
        "overallStatus": "unhealthy",
        "endpoints": [
            {
                "port": 8080,
                "type": "http",
                "endpoint": None,
                "status": "unhealthy",
                "responseTime": 12,
                "error": {
                    "category": "bad_gateway",
                    "message": "answered with status 502",
                    "retryable": failure.retryable,
                },
                "lastChecked": NOW,
            }
        ],
        "checks": 3,
        "retryable": failure.retryable,
        "firstChecked": NOW,
        "lastChecked": NOW,
    }


@pytest.mark.parametrize("phase", Phase)
async def test_addresses_are_shown_only_while_they_are_its_own(api: ServedApi, phase: Phase) -> None:
    """Of a machine that is stopped or gone, the address may belong to another account by now."""
    made, now = (await api.request_create()).json, api.env.clock.now()
    checked = EndpointHealth(
        port=80, kind=PortKind.HTTP, address="http://closed.example/", response_time_ms=1, last_checked_at=now
    )
    await api.change(
        made["instanceId"],
        provider_id=ProviderId("p-1"),
        phase=phase,
        endpoints=(Endpoint(port=80, kind=PortKind.HTTP, address="http://closed.example/"),),
        access=LoginMethods(
            ssh="ssh root@closed.example", jupyter="http://closed.example/", web_terminal="http://closed.example/"
        ),
        health=HealthReport(endpoints=(checked,), first_checked_at=now, last_checked_at=now, checks=1),
    )
    one = await api.get("/api/instances/p-1")
    listed = await api.get("/api/instances")
    merged = await api.get("/api/instances/comprehensive")

    reachable = phase in {Phase.RUNNING, Phase.HEALTH_CHECKING, Phase.READY}
    assert ["closed.example" in str(answer.json) for answer in (one, listed)] == [reachable, reachable]
    assert reachable or "closed.example" not in str(merged.json)


async def test_a_spot_notice_and_a_waiting_delete_are_shown(api: ServedApi) -> None:
    """The spot state of the provider, and what the instance waits for."""
    made, now = (await api.request_create()).json, api.env.clock.now()
    await api.change(
        made["instanceId"],
        provider_id=ProviderId("p-1"),
        goal=Goal.GONE,
        phase=Phase.DELETING,
        pending={
            "refused": Failure(code="NOVITA_API_ERROR", message="the provider refuses delete"),
            "sent_at": now,
        },
        observation={"spot": Spot(status="notified", reclaim_at=now, noticed_at=now)},
    )
    shown = (await api.get("/api/instances/p-1")).json

    assert shown["spot"] == {"status": "notified", "reclaimAt": NOW, "noticedAt": NOW}
    assert shown["error"].pop("nextStep").startswith("The provider did not carry out the call")
    assert shown["error"] == {"code": "NOVITA_API_ERROR", "message": "the provider refuses delete"}
    assert shown["reason"].startswith(
        "the provider refuses delete; the delete is sent again; the machine may be billed"
    )


@pytest.mark.parametrize(("is_over", "until"), [(True, "00:01:00"), (False, "00:01:45")])
async def test_a_create_with_an_unknown_outcome_says_so_and_until_when(
    api: ServedApi, until: str, *, is_over: bool
) -> None:
    """A call of a dead worker may be sent for another 45 s before the settle time starts."""
    made, now = (await api.request_create()).json["instanceId"], api.env.clock.now()

    async def shown() -> dict[str, Any]:
        (one,) = (await api.get("/api/instances")).json["instances"]
        return dict(one)

    await api.change(made, create={"number": 1, "sent_at": now})
    assert (await shown())["reason"] is None, "the call is under way"

    await api.change(made, create={"ended": is_over, "doubted_at": now})
    in_doubt = await shown()
    assert in_doubt["reason"].startswith("it is not known whether create call 1 made a machine")
    assert f"by its provider name until 2030-01-01 {until} UTC at least" in in_doubt["reason"]
    assert in_doubt["estimatedReadyTime"] is None

    await api.change(made, provider_id=ProviderId("p-1"), create={"sent_at": None})
    assert (await shown())["reason"] is None


async def test_an_instance_is_stale_after_two_missed_listings(api: ServedApi) -> None:
    """No longer stale after the next listing; a new instance that was not yet listed is not stale."""
    made = (await api.request_create()).json
    path = "/api/instances/p-1"
    not_created = (await api.get(f"/api/instances/{made['instanceId']}")).json["stale"]
    await api.change(
        made["instanceId"],
        provider_id=ProviderId("p-1"),
        observation={"sighted_at": api.env.clock.now()},
        phase=Phase.STARTING,
    )
    seen = (await api.get(path)).json
    api.env.clock.advance(61)
    missed = (await api.get(path)).json
    api.looks.append(datetime(2030, 1, 1, 0, 1, 1, tzinfo=UTC))
    api.service.parts.answers.forget()
    looked = (await api.get(path)).json

    assert [not_created, seen["stale"], missed["stale"], looked["stale"]] == [False, False, True, False]
    assert [each["lastSeenAt"] for each in (seen, missed, looked)] == [NOW, NOW, "2030-01-01T00:01:01.000Z"]

    await api.change(made["instanceId"], observation={"sighting": Sighting.ABSENT}, phase=Phase.FAILED)
    vanished = (await api.get(path)).json
    assert vanished["lastSeenAt"] == NOW, "a look that does not show it has not seen it"


async def test_all_bad_fields_are_reported_at_once_before_the_provider_is_called(api: ServedApi) -> None:
    """Also the webhook's address, which may be a secret."""
    answer = await api.request_create(
        gpuNum=9, rootfsSize="much", webhookUrl="http://10.0.0.1/hook?token=secret", templateId=0
    )
    error = error_of(answer, 400, "VALIDATION_ERROR")

    assert {(each["field"], each["code"], each.get("value")) for each in error["validationErrors"]} == {
        ("gpuNum", "INVALID_GPU_NUM", 9),
        ("rootfsSize", "INVALID_ROOTFS_SIZE", "much"),
        ("templateId", "INVALID_TEMPLATE_ID", 0),
        ("webhookUrl", "INVALID_WEBHOOK_URL", None),
    }
    assert b"secret" not in answer.body
    assert not api.env.provider.calls


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "INVALID_JSON"),
        (b"{", "INVALID_JSON"),
        (b'{"name": "\xff"}', "INVALID_JSON"),
        (b'{"gpuNum": NaN}', "INVALID_JSON"),
        (b"[" * 5000, "INVALID_JSON"),
        (b"null", "VALIDATION_ERROR"),
        (b"[]", "VALIDATION_ERROR"),
        (b'"text"', "VALIDATION_ERROR"),
        (b'{"name": "\\u0000"}', "VALIDATION_ERROR"),
    ],
)
async def test_a_body_that_is_no_order_is_the_callers_error(api: ServedApi, body: bytes, code: str) -> None:
    """Never ours."""
    answer = await api.service.ask("POST", "/api/instances", data=body, headers={"content-type": "application/json"})

    error_of(answer, 400, code)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"productName": "RTX 9090"}, "PRODUCT_NOT_FOUND"),
        ({"maxPrice": "0.01"}, "NO_OPTIMAL_PRODUCT_ANY_REGION"),
        ({"templateId": "nope"}, "TEMPLATE_NOT_FOUND"),
    ],
)
async def test_what_cannot_be_had_is_a_404(api: ServedApi, fields: dict[str, object], code: str) -> None:
    """At once, and nothing is recorded."""
    error = error_of(await api.request_create(**fields), 404, code)

    assert error["nextStep"] == NEXT_STEPS[code]
    assert (await api.get("/api/instances")).json["total"] == 0


async def test_the_allowed_actions_follow_the_phase(api: ServedApi) -> None:
    """A new instance can only be deleted, a ready one also stopped and restarted, a deleted one nothing more."""
    made = (await api.request_create()).json["instanceId"]
    shown = [(await api.get(f"/api/instances/{made}")).json["allowedActions"]]
    async with api.env.database.connection() as connection:
        await connection.execute("UPDATE corral_operations SET status = 'completed'")
    await api.change(made, phase=Phase.READY, provider_id="p-1")
    shown.append((await api.get("/api/instances/p-1")).json["allowedActions"])
    await api.service.ask("DELETE", f"/api/instances/{made}")
    shown.append((await api.get(f"/api/instances/{made}")).json["allowedActions"])

    assert shown == [["delete"], ["stop", "restart", "delete"], []]


async def test_a_product_that_is_sold_out_is_accepted_by_a_request_that_waits(api: ServedApi) -> None:
    """And says where it would go; without a wait, or with 0, it is a 404."""
    api.env.provider.set_stock(0)
    for fields in ({}, {"waitForCapacity": 0}):
        error_of(await api.request_create(**fields), 404, "NO_OPTIMAL_PRODUCT_ANY_REGION")
    accepted = await api.request_create(waitForCapacity="2h")

    assert accepted.status == 201
    assert accepted.json["region"] == "CN-HK-01"
    assert accepted.json["productId"] == "4090.16c62g"


async def test_what_it_waits_for_is_shown_while_it_is_not_created(api: ServedApi) -> None:
    """Without an estimated ready time, which is unknown."""
    obstacle = CreateWait(code="RESOURCE_CONSTRAINTS", message="waiting for capacity")
    shown = []
    for phase in (Phase.CREATING, Phase.STARTING):
        made = (await api.request_create(name=phase.value)).json["instanceId"]
        await api.change(made, phase=phase, waiting=obstacle)
        shown.append((await api.get(f"/api/instances/{made}")).json)
    waits, start_step = shown

    assert (waits["reason"], waits["estimatedReadyTime"]) == ("waiting for capacity", None)
    assert (start_step["reason"], start_step["estimatedReadyTime"] is None) == (None, False)


async def test_an_unreachable_provider_is_reported_and_nothing_is_recorded(api: ServedApi) -> None:
    """The caller may ask again."""
    api.env.provider.trouble[None] = CircuitOpenError("the provider is failing", retry_after_seconds=5)
    error = error_of(await api.request_create(), 503, "CIRCUIT_BREAKER_OPEN")

    assert error["retryable"]
    assert (await api.get("/api/instances")).json["total"] == 0


async def test_a_template_that_cannot_be_used_is_the_providers_fault(api: ServedApi) -> None:
    """Nothing the caller sends would make it work."""
    error_of(await api.request_create(templateId="broken"), 502, "INVALID_TEMPLATE")


async def test_a_dry_run_shows_the_plan_and_does_nothing(api: ServedApi) -> None:
    """Candidates in order with their price, the rest with the reason."""
    query = "/api/instances?dryRun=true"
    answer = await api.service.ask("POST", query, json={**CREATE_BODY, "region": "AS-IN-01"})
    wrong = await api.service.ask("POST", query, json={})

    assert answer.status == 200
    assert [(offer["region"], offer["price"]) for offer in answer.json["candidates"]] == [
        ("AS-SGP-02", 0.36),
        ("CN-HK-01", 0.36),
    ]
    rejected = [(offer["region"], offer["reason"]) for offer in answer.json["rejected"]]
    assert rejected == [("AS-IN-01", "no_such_product")]
    error_of(wrong, 400, "VALIDATION_ERROR")
    error_of(await api.service.ask("POST", "/api/instances?dryRun=perhaps", json=CREATE_BODY), 400, "VALIDATION_ERROR")
    assert set((await api.env.counts()).values()) == {0}


async def test_instances_are_listed_newest_first_and_filtered(api: ServedApi) -> None:
    """By status, name and region; the total counts all pages."""
    made = []
    for name in ("a", "b", "c"):
        made.append((await api.request_create(name=name)).json["instanceId"])
        api.env.clock.advance(1)
    await api.change(made[1], phase=Phase.READY)

    async def names(query: str) -> tuple[list[str], int]:
        body = (await api.get(f"/api/instances?{query}")).json
        return [each["name"] for each in body["instances"]], body["total"]

    assert await names("") == (["c", "b", "a"], 3)
    assert await names("limit=1&offset=1") == (["b"], 3)
    assert await names("status=creating") == (["c", "a"], 2)
    assert await names("status=ready") == (["b"], 1)
    assert await names("status=stopped") == ([], 0)
    await api.change(made[0], phase=Phase.EXITED)
    assert await names("status=stopped") == await names("status=exited") == (["a"], 1)
    await api.change(made[2], phase=Phase.TERMINATED)
    assert await names("status=active") == (["b", "a"], 2)
    assert await names("name=a") == (["a"], 1)
    assert await names("region=CN-HK-01&status=ready") == (["b"], 1)
    assert await names("region=EU-1") == ([], 0)
    assert (await api.get("/api/instances?limit=7")).json["limit"] == 7


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "offset=-1", "status=lost", "name=%00", "region=a%00", "name=%ff"]
)
async def test_a_bad_query_is_reported_by_its_name(api: ServedApi, query: str) -> None:
    """And never reaches the database."""
    error = error_of(await api.get(f"/api/instances?{query}"), 400, "VALIDATION_ERROR")

    assert [(each["field"], each["code"]) for each in error["validationErrors"]] == [
        (query.split("=", maxsplit=1)[0], "INVALID_QUERY")
    ]


async def test_a_bad_word_in_a_query_names_those_that_are_accepted(api: ServedApi) -> None:
    """Every status there is, and two other words; the same for every list with such a filter."""
    error = error_of(await api.get("/api/instances?status=lost"), 400, "VALIDATION_ERROR")
    jobs = error_of(await api.get("/api/jobs?status=lost"), 400, "VALIDATION_ERROR")

    message = error["validationErrors"][0]["message"]
    assert set(message.removeprefix("must be one of ").split(", ")) == {
        *(phase.value for phase in Phase),
        "stopped",
        "active",
    }
    assert "must be one of pending" in jobs["validationErrors"][0]["message"]


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        ("instances?limit=501", "must be a whole number from 1 to 500"),
        ("instances?limit=x", "must be a whole number from 1 to 500"),
        ("instances?offset=-1", "must be a whole number from 0 to 1000000000"),
        ("instances?name=%00", "must have 0 to 100 printable ASCII characters"),
        ("instances/comprehensive?includeNovitaOnly=x", "must be true or false"),
    ],
)
async def test_a_bad_query_says_what_is_accepted(api: ServedApi, query: str, accepted: str) -> None:
    """All of it, and not in the words of the language we are written in."""
    error = error_of(await api.get(f"/api/{query}"), 400, "VALIDATION_ERROR")

    assert [each["message"] for each in error["validationErrors"]] == [accepted]


async def test_old_clients_read_running_where_others_read_ready(database: Database) -> None:
    """CORRAL_READY_STATUS=running; the filter takes the word that is shown."""
    async with opened(database, ready_word="running") as api:
        made = (await api.request_create()).json["instanceId"]
        await api.change(made, phase=Phase.READY)
        shown = (await api.get(f"/api/instances/{made}")).json["status"]
        listed = (await api.get("/api/instances?status=running")).json

    assert shown == "running"
    assert [each["status"] for each in listed["instances"]] == ["running"]


async def test_a_deletion_is_accepted_and_can_be_followed(api: ServedApi) -> None:
    """The instance stays `deleting`; asking again changes nothing."""
    made = (await api.request_create()).json
    first = await api.service.ask("DELETE", f"/api/instances/{made['instanceId']}")
    second = await api.service.ask("DELETE", f"/api/instances/{made['instanceId']}")
    shown = (await api.get(f"/api/instances/{made['instanceId']}")).json
    operation = (await api.get(f"/api/operations/{first.json['operationId']}")).json
    listed = (await api.get(f"/api/instances/{made['instanceId']}/operations")).json["operations"]

    assert first.status == second.status == 202
    assert first.json == second.json
    assert first.json == {
        "instanceId": made["instanceId"],
        "novitaInstanceId": None,
        "status": "deleting",
        "message": "Instance deletion initiated successfully",
        "operationId": first.json["operationId"],
    }
    assert (shown["status"], shown["operation"]["kind"]) == ("deleting", "delete")
    assert operation == {
        "operationId": first.json["operationId"],
        "kind": "delete",
        "status": "initiated",
        "phases": {},
        "instanceId": made["instanceId"],
        "createdAt": NOW,
        "error": None,
    }
    assert sorted((each["kind"], each["status"]) for each in listed) == [
        ("create", "cancelled"),
        ("delete", "initiated"),
    ]


@pytest.mark.parametrize("unknown", ["inst_missing", "%00", "p%0a", "x" * 300])
async def test_what_is_not_there_is_a_404_everywhere(api: ServedApi, unknown: str) -> None:
    """In the one shape, with a code of its own."""
    for method, path in (("GET", ""), ("GET", "/operations"), ("DELETE", "")):
        error_of(await api.service.ask(method, f"/api/instances/{unknown}{path}"), 404, "INSTANCE_NOT_FOUND")
    error_of(await api.get(f"/api/operations/{unknown}"), 404, "OPERATION_NOT_FOUND")


async def test_a_burst_of_creates_is_accepted(api: ServedApi) -> None:
    """Each caller gets an instance of its own."""
    answers = await asyncio.gather(*(api.request_create(name=f"n{n}") for n in range(200)))

    assert {answer.status for answer in answers} == {201}
    assert len({answer.json["instanceId"] for answer in answers}) == 200
    assert (await api.get("/api/instances?limit=1")).json["total"] == 200


async def test_a_create_is_placed_by_the_providers_catalog(database: Database) -> None:
    """Through the real client; nothing is created within the request."""
    async with (
        start_simulator(stock=10) as sim,
        guarding(sim.base_url, SteppedClock()) as provider,
        opened(database, cloud=provider.cloud) as api,
    ):
        answer = await api.request_create(templateId=next(iter(sim.world.templates)))
        nowhere = await api.request_create(templateId=1, productName="RTX 4090")

        assert (answer.status, answer.json["region"]) == (201, "CN-HK-01")
        assert answer.json["price"] > 0
        assert nowhere.status == 404
        assert not sim.instances()


async def test_the_openapi_document_describes_the_create_request(api: ServedApi) -> None:
    """Its fields with their rules, its answers, and the key."""
    document = (await api.get("/schema/openapi.json")).json
    create = document["paths"]["/api/instances"]["post"]
    order = create["requestBody"]["content"]["application/json"]["schema"]

    assert order["required"] == ["name", "productName"]
    assert order["anyOf"] == [{"required": ["templateId"]}, {"required": ["image"]}]
    assert order["properties"]["gpuNum"]["maximum"] == 8
    assert {parameter["name"] for parameter in create["parameters"]} == {"dryRun", "Idempotency-Key"}
    assert {"200", "201"} <= set(create["responses"])
    assert create["responses"]["201"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/InstanceCreated"
    }


async def test_a_list_can_be_read_as_rows(api: ServedApi) -> None:
    """What a table shows, each value as in the whole instance, page by page."""
    made = [(await api.request_create(name=f"row-{number}")).json["instanceId"] for number in range(3)]
    whole = {one["id"]: one for one in (await api.get("/api/instances")).json["instances"]}

    first = (await api.get("/api/instances?fields=summary&limit=2")).json
    rest = (await api.get(f"/api/instances?fields=summary&limit=2&after={first['instances'][-1]['id']}")).json
    rows = [*first["instances"], *rest["instances"]]

    assert {row["id"] for row in rows} == set(made)
    assert (first["total"], rest["total"]) == (3, 3)
    of_lease = dict.fromkeys(["endsAt", "endsBecause", "endsReason", "notifiedAt", "quiet"])
    assert all(row.items() <= (whole[row["id"]] | of_lease).items() for row in rows)
    assert set(rows[0]) >= {"name", "status", "gpuNum", "productName", "region", "price", "billed", "createdAt"}
    assert set(rows[0]) >= {"reason", "error", "allowedActions"}
    assert set(rows[0]).isdisjoint({"healthCheck", "placement", "operation", "portMappings"})


async def test_changed_rows_are_read_together_by_their_ids(api: ServedApi) -> None:
    """A page that follows the events reads what changed, and never the whole fleet."""
    made = [(await api.request_create(name=f"row-{number}")).json["instanceId"] for number in range(3)]

    found = (await api.get(f"/api/instances?fields=summary&ids={made[0]},{made[2]},inst_none,{made[0]}")).json
    none = (await api.get("/api/instances?ids=")).json
    many = await api.get("/api/instances?ids=" + ",".join(f"inst_{number}" for number in range(101)))

    assert {row["id"] for row in found["instances"]} == {made[0], made[2]}
    assert found["total"] == 2
    assert none["instances"] == []
    assert error_of(many, 400, "VALIDATION_ERROR")["validationErrors"] == [
        {"field": "ids", "code": "INVALID_QUERY", "message": "must have at most 100 ids"}
    ]
    error_of(await api.get("/api/instances?ids=a%20b"), 400, "VALIDATION_ERROR")
    error_of(await api.get("/api/instances?fields=some"), 400, "VALIDATION_ERROR")


async def test_fifty_rows_cross_a_slow_link_in_a_tenth_of_a_second(api: ServedApi) -> None:
    """At 1.6 Mbit/s, 20 kB take that long."""
    await asyncio.gather(*(api.request_create(name=f"row-{number}") for number in range(50)))

    answer = await api.get("/api/instances?fields=summary&limit=50")

    assert len(answer.json["instances"]) == 50
    assert int(answer.headers["content-length"]) < 20_000
