"""POST /api/instances: the same response, audit line and metrics with and without a query, and one commit."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

import msgspec
import pytest
from support.http.served_api import CREATE_BODY, ServedApi
from support.http.service import Answer, Service, error_of

from corral.base.clock import SystemClock
from corral.domain.access import Access
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database

PLAIN: Final = "/api/instances"
WITH_QUERY: Final = "/api/instances?dryRun=false"

BODIES: Final = {
    "a good one": msgspec.json.encode(CREATE_BODY),
    "all of its fields": msgspec.json.encode(
        {**CREATE_BODY, "region": "AS-SGP-02", "billingMode": "onDemand", "maxPrice": 9}
    ),
    "several bad fields": msgspec.json.encode({"name": "?", "gpuNum": 99, "webhookUrl": "http://127.0.0.1/"}),
    "an unknown product": msgspec.json.encode({**CREATE_BODY, "productName": "RTX 1"}),
    "an unknown template": msgspec.json.encode({**CREATE_BODY, "templateId": "none"}),
    "nothing for that price": msgspec.json.encode({**CREATE_BODY, "maxPrice": "0.000001"}),
    "no object": b"[]",
    "no JSON": b"{",
    "not UTF-8": b'{"name": "\xff"}',
    "deep": b"[" * 5000,
    "empty": b"",
}


async def sent(service: Service, path: str, body: bytes, **headers: str) -> Answer:
    return await service.ask("POST", path, data=body, headers={"Content-Type": "application/json", **headers})


def seen(answer: Answer) -> tuple[int, set[str], Any]:
    """What two responses to the same request must share: all but ids and times."""
    body = re.sub(r'"((?:inst|op|req)_)\w+"', r'"\1"', answer.body.decode())
    body = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "(time)", body)
    return answer.status, set(answer.headers), msgspec.json.decode(body)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_query_does_not_change_the_response(api: ServedApi, body: bytes) -> None:
    """For every body; the header names are the same, too."""
    plain = await sent(api.service, PLAIN, body)
    with_query = await sent(api.service, WITH_QUERY, body)

    assert seen(plain) == seen(with_query)
    assert plain.headers["content-type"] == with_query.headers["content-type"]


async def test_a_query_does_not_change_the_role_needed_to_create(api: ServedApi, database: Database) -> None:
    """A viewer and an unknown key are refused; an operator is not."""
    now = SystemClock().now()
    keys = {each.value: (await create_key(database, name=each.value, access=each, now=now))[1] for each in Access}
    keys["unknown"] = "corral_unknown"
    found: dict[str, int] = {}
    for name, key in keys.items():
        plain, with_query = [
            await sent(api.service, path, BODIES["a good one"], **{"X-API-Key": key}) for path in (PLAIN, WITH_QUERY)
        ]
        assert seen(plain) == seen(with_query)
        found[name] = plain.status

    assert found == {"viewer": 403, "operator": 201, "admin": 201, "unknown": 401}


async def test_a_query_changes_neither_metrics_nor_audit_lines(api: ServedApi) -> None:
    """Both requests count as the same route."""
    for path in (PLAIN, WITH_QUERY):
        for name in ("a good one", "several bad fields"):
            await sent(api.service, path, BODIES[name])

    lines = await api.service.engine.audit.page(after=0, limit=10)
    assert [(line.route, line.path, line.status, line.error_code) for line in lines] == [
        (PLAIN, PLAIN, 201, None),
        (PLAIN, PLAIN, 400, "VALIDATION_ERROR"),
    ] * 2
    assert [line.instance_id is not None for line in lines] == [True, False] * 2
    metrics = (await api.get("/metrics")).body.decode()
    assert 'corral_http_requests_total{method="POST",route="/api/instances",status="201"} 2.0' in metrics
    assert 'corral_http_requests_total{method="POST",route="/api/instances",status="400"} 2.0' in metrics


async def test_a_create_and_its_audit_line_are_one_commit(api: ServedApi, database: Database) -> None:
    """Each line names its own instance, also when several creates share a transaction."""

    async def send_create(n: int) -> Answer:
        body = msgspec.json.encode({**CREATE_BODY, "name": f"n{n}"})
        keyed = {"Idempotency-Key": f"k{n}"} if n % 2 else {}
        path = PLAIN if n % 3 else WITH_QUERY
        return await sent(api.service, path, body, **{"X-Request-ID": f"r{n}", **keyed})

    answers = await asyncio.gather(*(send_create(n) for n in range(20)))
    asked = {f"r{n}": answer.json["instanceId"] for n, answer in enumerate(answers)}
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT a.request_id, i.id FROM corral_audit AS a JOIN corral_instances AS i"
            " ON i.id = a.instance_id AND i.xmin::text = a.xmin::text AND i.created_at = a.at"
        )

    assert {row["request_id"]: row["id"] for row in rows} == asked
    assert len(rows) == len(await api.service.engine.audit.page(after=0, limit=100)) == 20


async def test_a_repeated_create_has_an_audit_line_of_its_own(api: ServedApi) -> None:
    """Also a repetition that arrives while the first request is being recorded."""
    body, keyed = BODIES["a good one"], {"Idempotency-Key": "once"}
    answers = await asyncio.gather(*(sent(api.service, PLAIN, body, **keyed) for _ in range(5)))
    answers.append(await sent(api.service, PLAIN, body, **keyed))
    lines = await api.service.engine.audit.page(after=0, limit=100)

    assert {(answer.status, answer.json["instanceId"]) for answer in answers} == {(201, lines[0].instance_id)}
    assert [line.status for line in lines] == [201] * 6
    assert {line.instance_id for line in lines} == {lines[0].instance_id}


async def test_a_create_without_its_audit_line_is_not_recorded(api: ServedApi, database: Database) -> None:
    """The response is a 500 and no instance exists."""
    async with database.connection() as connection:
        await connection.execute("DROP TABLE corral_audit")
    answer = await sent(api.service, PLAIN, BODIES["a good one"])
    async with database.connection() as connection:
        recorded = await connection.fetchval("SELECT count(*) FROM corral_instances")

    assert (answer.status, recorded) == (500, 0)


async def test_the_request_of_an_instance_can_be_sent_again(api: ServedApi) -> None:
    """Limits and checks included, so that a copy does not cost more; but nothing that may hold a token."""
    chosen = {
        "name": "copied",
        "regions": ["AS-SGP-02", "CN-HK-01"],
        "billingMode": "spot",
        "spotFallback": True,
        "maxPrice": 0.75,
        "waitForCapacity": 7200,
        "rootfsSize": 80,
        "healthCheck": {"path": "/up?token=do-not-tell", "targetPort": 8080},
        "webhookUrl": "https://93.184.216.34/do-not-tell",
    }
    first = (await api.request_create(**chosen)).json["instanceId"]
    found = await api.get(f"/api/instances/{first}/request")
    again = await api.service.ask("POST", "/api/instances", json=found.json)
    copy = await api.get(f"/api/instances/{again.json['instanceId']}/request")

    assert again.status == 201
    assert found.json == {**copy.json, "webhookHost": "93.184.216.34"}
    assert b"do-not-tell" not in found.body
    assert {name: found.json[name] for name in ("name", "regions", "spotFallback", "maxPrice", "waitForCapacity")} == {
        name: chosen[name] for name in ("name", "regions", "spotFallback", "maxPrice", "waitForCapacity")
    }
    assert (found.json["gpuNum"], found.json["rootfsSize"], found.json["templateId"]) == (2, 80, "204511")
    health = found.json["healthCheck"]
    assert (health["path"], health["targetPort"], health["timeoutMs"]) == ("/up", 8080, 10_000)
    error_of(await api.get("/api/instances/inst_none/request"), 404, "INSTANCE_NOT_FOUND")
