"""The short way for plain wishes answers as the framework's way does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec
import pytest
from support.served_api import WISH, ServedApi, opened
from support.service import Answer, Service

from corral.base.clock import SystemClock
from corral.domain.access import Access
from corral.engine.auth.api_keys import issue
from corral.store.session.database import Database

PLAIN: Final = "/api/instances"
BY_THE_FRAMEWORK: Final = "/api/instances?dryRun=false"

BODIES: Final = {
    "a good one": msgspec.json.encode(WISH),
    "all of its fields": msgspec.json.encode({**WISH, "region": "AS-SGP-02", "billingMode": "onDemand", "maxPrice": 9}),
    "several bad fields": msgspec.json.encode({"name": "?", "gpuNum": 99, "webhookUrl": "http://127.0.0.1/"}),
    "an unknown product": msgspec.json.encode({**WISH, "productName": "RTX 1"}),
    "an unknown template": msgspec.json.encode({**WISH, "templateId": "none"}),
    "nothing for that price": msgspec.json.encode({**WISH, "maxPrice": "0.000001"}),
    "no object": b"[]",
    "no JSON": b"{",
    "not UTF-8": b'{"name": "\xff"}',
    "deep": b"[" * 5000,
    "empty": b"",
}


@pytest.fixture
async def api(database: Database) -> AsyncGenerator[ServedApi]:
    async with opened(database) as api:
        yield api


async def sent(service: Service, path: str, body: bytes, **headers: str) -> Answer:
    return await service.ask("POST", path, data=body, headers={"Content-Type": "application/json", **headers})


def seen(answer: Answer) -> tuple[int, set[str], Any]:
    """What two answers to the same request must share: all but the names and times given to each."""
    body = re.sub(r'"((?:inst|op|req)_)\w+"', r'"\1"', answer.body.decode())
    body = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "(time)", body)
    return answer.status, set(answer.headers), msgspec.json.decode(body)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_both_ways_answer_alike(api: ServedApi, body: bytes) -> None:
    """Whatever is sent, and the header names too."""
    plain = await sent(api.service, PLAIN, body)
    framework = await sent(api.service, BY_THE_FRAMEWORK, body)

    assert seen(plain) == seen(framework)
    assert plain.headers["content-type"] == framework.headers["content-type"]


async def test_both_ways_let_in_the_same_callers(api: ServedApi, database: Database) -> None:
    """A viewer, and a key nobody made, are refused alike; an operator is not."""
    now = SystemClock().now()
    keys = {each.value: (await issue(database, name=each.value, access=each, now=now))[1] for each in Access}
    keys["nobody"] = "corral_nobody"
    found: dict[str, int] = {}
    for name, key in keys.items():
        plain, framework = [
            await sent(api.service, path, BODIES["a good one"], **{"X-API-Key": key})
            for path in (PLAIN, BY_THE_FRAMEWORK)
        ]
        assert seen(plain) == seen(framework)
        found[name] = plain.status

    assert found == {"viewer": 403, "operator": 201, "admin": 201, "nobody": 401}


async def test_both_ways_are_counted_and_written_down_alike(api: ServedApi) -> None:
    """As the same route, in the metrics and in the audit log."""
    for path in (PLAIN, BY_THE_FRAMEWORK):
        for name in ("a good one", "several bad fields"):
            await sent(api.service, path, BODIES[name])

    lines = await api.service.parts.audit.page(after=0, limit=10)
    assert [(line.route, line.path, line.status, line.error_code) for line in lines] == [
        (PLAIN, PLAIN, 201, None),
        (PLAIN, PLAIN, 400, "VALIDATION_ERROR"),
    ] * 2
    assert [line.instance_id is not None for line in lines] == [True, False] * 2
    metrics = (await api.get("/metrics")).body.decode()
    assert 'corral_http_requests_total{method="POST",route="/api/instances",status="201"} 2.0' in metrics
    assert 'corral_http_requests_total{method="POST",route="/api/instances",status="400"} 2.0' in metrics


async def test_a_wish_and_its_line_are_one_commit(api: ServedApi, database: Database) -> None:
    """So that a crowd costs half of them; each line is about its own wish, whoever went along and whichever way."""

    async def wished(n: int) -> Answer:
        body = msgspec.json.encode({**WISH, "name": f"n{n}"})
        keyed = {"Idempotency-Key": f"k{n}"} if n % 2 else {}
        path = PLAIN if n % 3 else BY_THE_FRAMEWORK
        return await sent(api.service, path, body, **{"X-Request-ID": f"r{n}", **keyed})

    answers = await asyncio.gather(*(wished(n) for n in range(20)))
    asked = {f"r{n}": answer.json["instanceId"] for n, answer in enumerate(answers)}
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT a.request_id, i.id FROM corral_audit AS a JOIN corral_instances AS i"
            " ON i.id = a.instance_id AND i.xmin::text = a.xmin::text AND i.created_at = a.at"
        )

    assert {row["request_id"]: row["id"] for row in rows} == asked
    assert len(rows) == len(await api.service.parts.audit.page(after=0, limit=100)) == 20


async def test_a_repeated_wish_has_a_line_of_its_own(api: ServedApi) -> None:
    """Also one that meets the first while both are being recorded."""
    body, keyed = BODIES["a good one"], {"Idempotency-Key": "once"}
    answers = await asyncio.gather(*(sent(api.service, PLAIN, body, **keyed) for _ in range(5)))
    answers.append(await sent(api.service, PLAIN, body, **keyed))
    lines = await api.service.parts.audit.page(after=0, limit=100)

    assert {(answer.status, answer.json["instanceId"]) for answer in answers} == {(201, lines[0].instance_id)}
    assert [line.status for line in lines] == [201] * 6
    assert {line.instance_id for line in lines} == {lines[0].instance_id}


async def test_a_wish_whose_line_cannot_be_written_is_not_recorded(api: ServedApi, database: Database) -> None:
    """Nothing happened, and the caller is told so."""
    async with database.connection() as connection:
        await connection.execute("DROP TABLE corral_audit")
    answer = await sent(api.service, PLAIN, BODIES["a good one"])
    async with database.connection() as connection:
        recorded = await connection.fetchval("SELECT count(*) FROM corral_instances")

    assert (answer.status, recorded) == (500, 0)
