"""Leases in the SDK: what is sent, and how responses are read."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from support.http.sample_instance import SAMPLE
from support.http.servers import HttpAnswers, http_answer, serving

from corral_client import AsyncClient, Conflict, LeaseIdle
from corral_client.models.orders import body_of

INSTANCE = {
    **SAMPLE,
    "dataKeptUntil": "2030-01-08T00:00:00Z",
    "lease": {
        "maxDuration": "8h",
        "idle": {"after": "30m", "gpuBelow": 5, "cpuBelow": 10.5, "signals": ["gpu", "lastUsed", "of a newer service"]},
        "schedule": {"stop": "0 20 * * 1-5", "start": None, "timezone": "Europe/Berlin"},
        "onEnd": "delete",
        "grace": "10m",
        "endsAt": "2030-01-01T08:00:00Z",
        "endsBecause": "max_duration",
        "reason": "maximum duration of 8 h",
        "notifiedAt": None,
        "extendedUntil": None,
        "lastUsedAt": None,
        "startsAt": None,
        "endedBy": None,
        "quiet": {"since": "2030-01-01T01:00:00Z", "gpu": 0, "cpu": None},
    },
}


def found(body: object) -> bytes:
    return http_answer(200, msgspec.json.encode(body), content_type="application/json")


async def test_a_lease_is_read_whole() -> None:
    """Also with values that a newer service adds."""
    async with serving(HttpAnswers(found(INSTANCE))) as port, AsyncClient(f"http://127.0.0.1:{port}") as client:
        instance = await client.instances.get("inst_1")

    lease = instance.lease
    assert lease is not None
    assert (lease.max_duration, lease.on_end, lease.ends_because) == ("8h", "delete", "max_duration")
    assert lease.ends_at == datetime(2030, 1, 1, 8, tzinfo=UTC)
    assert lease.idle == LeaseIdle(after="30m", cpu_below=10.5, signals=["gpu", "lastUsed", "of a newer service"])
    assert lease.schedule is not None
    assert lease.quiet is not None
    assert (lease.schedule.timezone, lease.quiet.gpu, lease.quiet.cpu) == ("Europe/Berlin", 0, None)
    assert instance.data_kept_until == datetime(2030, 1, 8, tzinfo=UTC)


async def test_a_change_sends_what_is_named_and_none_as_null() -> None:
    """Absent parts stay as they were, so that a null must not get lost on the way."""
    answers = HttpAnswers(found(INSTANCE))
    async with serving(answers) as port, AsyncClient(f"http://127.0.0.1:{port}") as client:
        await client.instances.set_lease("inst_1", max_duration=None, idle={"after": "1h", "gpu_below": 3.0})
        await client.instances.extend("inst_1", by="2h")
        await client.instances.extend("inst_1", until=datetime(2030, 1, 2, tzinfo=UTC))

    sent = [(head.split()[0], head.split()[1], body) for head, body in zip(answers.heads, answers.bodies, strict=True)]
    changes = [(method, path, msgspec.json.decode(body)) for method, path, body in sent if method != "GET"]
    assert changes == [
        ("PATCH", "/api/instances/inst_1/lease", {"maxDuration": None, "idle": {"after": "1h", "gpuBelow": 3.0}}),
        ("POST", "/api/instances/inst_1/extend", {"by": "2h"}),
        ("POST", "/api/instances/inst_1/extend", {"until": "2030-01-02T00:00:00Z"}),
    ]


async def test_use_is_reported_now_or_at_a_time() -> None:
    used = {"instanceId": "inst_1", "lastUsedAt": "2030-01-01T01:00:00Z"}
    answers = HttpAnswers(found(INSTANCE), found(used), found(INSTANCE), found(used))
    async with serving(answers) as port, AsyncClient(f"http://127.0.0.1:{port}") as client:
        now = await client.instances.used("inst_1")
        await client.instances.used("inst_1", at=datetime(2030, 1, 1, 1, tzinfo=UTC))

    assert now.last_used_at == datetime(2030, 1, 1, 1, tzinfo=UTC)
    assert [head.split()[:2] for head in answers.heads[1::2]] == [["PUT", "/api/instances/inst_1/last-used"]] * 2
    assert [msgspec.json.decode(body) for body in answers.bodies[1::2]] == [{}, {"lastUsedAt": "2030-01-01T01:00:00Z"}]


async def test_a_refusal_has_the_code_of_the_service() -> None:
    error = {"error": {"code": "NO_LEASE", "message": "nothing would end train", "retryable": False}}
    refusal = http_answer(409, msgspec.json.encode(error), content_type="application/json")
    async with (
        serving(HttpAnswers(found(INSTANCE), refusal)) as port,
        AsyncClient(f"http://127.0.0.1:{port}") as client,
    ):
        with pytest.raises(Conflict, match="nothing would end train") as refused:
            await client.instances.extend("inst_1", by="1h")

    assert refused.value.code == "NO_LEASE"


def test_an_order_keeps_what_is_removed_from_its_lease() -> None:
    """Elsewhere in an order, None is the same as nothing."""
    order = body_of({"name": "a", "product_name": "b", "lease": {"max_duration": None, "schedule": {"stop": None}}})

    assert order["lease"] == {"maxDuration": None, "schedule": {"stop": None}}
    assert body_of({"name": "a", "product_name": "b", "lease": None})["lease"] is None
    assert "lease" not in body_of({"name": "a", "product_name": "b"})
