"""Faults over real HTTP: what the client feels, and what really happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientSession, ClientTimeout

from novitasim.testing import PLAIN, Simulated, start_simulator

KEY = {"Authorization": "Bearer any-key"}


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    async with start_simulator() as simulated:
        yield simulated


@pytest.fixture
async def session(sim: Simulated) -> AsyncGenerator[ClientSession]:
    async with ClientSession(sim.root_url, headers=KEY, timeout=ClientTimeout(total=10)) as opened:
        yield opened


def listing(session: ClientSession, **options: Any) -> Any:
    return session.get("/gpu-instance/openapi/v1/gpu/instances", **options)


async def test_a_lost_reply_drops_the_connection_after_doing_the_call(sim: Simulated) -> None:
    sim.fault("lost_reply", on="create")

    with pytest.raises(aiohttp.ClientConnectionError):
        await sim.create("lost")

    assert [instance.order.name for instance in sim.instances()] == ["lost"]
    assert sim.calls()["endpoints"]["create"]["outcomes"] == {"lost_reply": 1}


async def test_a_dropped_connection_is_reset_not_ended(sim: Simulated) -> None:
    """An orderly end could be taken for an empty answer."""
    sim.fault("lost_reply", on="clusters")
    reader, writer = await asyncio.open_connection(*sim.root_url.removeprefix("http://").split(":"))
    writer.write(b"GET /gpu-instance/openapi/v1/clusters HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n\r\n")

    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_a_refused_connection_does_nothing(sim: Simulated) -> None:
    sim.fault("refuse", on="create")

    with pytest.raises(aiohttp.ClientConnectionError):
        await sim.create("refused")

    assert sim.instances() == []
    assert await sim.create("next")


async def test_a_500_may_have_been_done_or_not(sim: Simulated) -> None:
    sim.fault("error_500", on="create")
    sim.fault("500_but_created", on="create")

    undone = await sim.ask("/gpu/instance/create", PLAIN | {"name": "undone"})
    done = await sim.ask("/gpu/instance/create", PLAIN | {"name": "done"})

    assert (undone[0], done[0]) == (500, 500)
    assert undone[1] == {"code": 500, "reason": "UNKNOWN", "message": "simulated failure", "metadata": {}}
    assert [instance.order.name for instance in sim.instances()] == ["done"]


async def test_the_client_that_repeats_a_lost_create_is_billed_twice_and_the_ledger_sees_it(sim: Simulated) -> None:
    sim.fault("500_but_created", on="create")
    await sim.ask("/gpu/instance/create", PLAIN | {"name": "corral-7-first"})
    await sim.create("corral-7-second")
    sim.advance(60)

    assert sim.billed_at_once("corral-7-.*") == 2
    assert sim.ledger(r"^(corral-\d+)-").twice == {"corral-7": 2}
    assert sim.ledger().twice == {}


@pytest.mark.parametrize("form", ["none", "seconds", "date"])
async def test_throttling_says_when_to_retry_in_the_chosen_form(
    sim: Simulated, session: ClientSession, form: str
) -> None:
    sim.fault("throttle", on="list", seconds=7, retry_after=form)

    async with listing(session) as response:
        shown = response.headers.get("Retry-After")
        body = await response.json()

    assert (response.status, body["reason"]) == (429, "RATE_LIMIT_EXCEEDED")
    if form == "date":
        assert shown is not None
        assert parsedate_to_datetime(shown).timestamp() == int(sim.now()) + 7
    else:
        assert shown == (None if form == "none" else "7")


async def test_the_rate_limit_counts_by_the_sliding_minute(sim: Simulated, session: ClientSession) -> None:
    sim.set(rate_limit_per_minute=3, retry_after="seconds")
    statuses = []
    for _ in range(5):
        async with listing(session) as response:
            statuses.append((response.status, response.headers.get("Retry-After")))

    assert statuses == [(200, None)] * 3 + [(429, "60")] * 2
    sim.advance(60)
    async with listing(session) as response:
        assert response.status == 200
    assert sim.calls()["busiest_minute"] == 5


async def test_latency_delays_the_answer_and_nothing_else(sim: Simulated, session: ClientSession) -> None:
    sim.fault("latency", on="list", seconds=0.2)
    loop = asyncio.get_running_loop()
    began = loop.time()

    async with listing(session) as response:
        assert response.status == 200

    assert loop.time() - began >= 0.2


@pytest.mark.parametrize("done", [True, False])
async def test_a_hanging_call_is_executed_only_with_done(sim: Simulated, *, done: bool) -> None:
    sim.fault("hang", on="create", done=done)

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(sim.create("hung"), 0.3)

    assert len(sim.instances()) == int(done)


async def test_a_hang_is_bounded(sim: Simulated) -> None:
    sim.fault("hang", on="create", seconds=0.1)

    with pytest.raises(aiohttp.ClientConnectionError):
        await sim.create("hung")


async def test_answers_can_be_spoilt(sim: Simulated, session: ClientSession) -> None:
    for fault in ("garbage", "wrong_shape", "html"):
        sim.fault(fault, on="list")

    async with listing(session) as garbage, listing(session) as shape, listing(session) as api:
        contents = await garbage.read(), await shape.json(), await api.text()

    assert b"upstream hiccup" in contents[0]
    assert contents[1] == [{"unexpected": True}]
    assert (api.status, api.content_type) == (403, "text/html")
    assert "error code: 1010" in contents[2]


async def test_a_truncated_answer_ends_in_the_middle(sim: Simulated, session: ClientSession) -> None:
    sim.fault("truncated", on="list")

    with pytest.raises(aiohttp.ClientPayloadError):
        async with listing(session) as response:
            await response.read()


@pytest.mark.parametrize(("fault", "length"), [("endless_body", None), ("huge_body", 1024**3)])
async def test_a_body_without_end_flows_until_the_client_leaves(
    sim: Simulated, session: ClientSession, fault: str, length: int | None
) -> None:
    sim.fault(fault, on="list")

    async with listing(session) as response:
        taken = await response.content.readexactly(4 * 1024 * 1024)

    assert len(taken) == 4 * 1024 * 1024
    assert response.content_length == length
    assert (await sim.ask("/gpu/instances"))[0] == 200


async def test_a_gzip_bomb_is_small_on_the_wire_and_large_inside(sim: Simulated) -> None:
    sim.fault("gzip_bomb", on="list", count=2)
    async with ClientSession(sim.root_url, headers=KEY, auto_decompress=False) as raw, listing(raw) as response:
        packed = len(await response.read())
    inside = 0
    async with ClientSession(sim.root_url, headers=KEY) as session, listing(session) as response:
        async for chunk in response.content.iter_any():
            inside += len(chunk)
            if inside > 32 * 1024 * 1024:
                break

    assert packed < 400 * 1024
    assert inside > 32 * 1024 * 1024


async def test_a_created_instance_may_lag_in_the_list(sim: Simulated) -> None:
    sim.fault("list_lag", seconds=20)
    instance_id = await sim.create()

    assert (await sim.ask("/gpu/instance", instanceId=instance_id))[0] == 200
    assert (await sim.ask("/gpu/instances"))[1] == {"instances": [], "total": 0}
    sim.advance(20)
    assert (await sim.ask("/gpu/instances"))[1]["total"] == 1


async def test_harm_without_a_call_is_done_at_once_to_matching_names(sim: Simulated) -> None:
    await sim.create("a-1")
    await sim.create("a-2")
    await sim.create("b-1")
    sim.advance(10)

    assert sim.fault("vanish", name="^a-") == 2
    assert [item["name"] for item in (await sim.ask("/gpu/instances"))[1]["instances"]] == ["b-1"]
    assert sim.ledger().billed_now == 1


async def test_harm_on_a_call_strikes_the_instance_of_that_call(sim: Simulated) -> None:
    sim.fault("status_error", on="create", name="doomed", message="host failed")
    fine, doomed = await sim.create("fine"), await sim.create("doomed")
    sim.advance(60)

    errors = {
        instance_id: (await sim.ask("/gpu/instance", instanceId=instance_id))[1] for instance_id in (fine, doomed)
    }

    assert errors[fine]["statusError"] == {"state": "", "message": ""}
    assert errors[doomed]["statusError"] == {"state": "failed", "message": "host failed"}
    assert errors[doomed]["status"] == "toCreate"


async def test_a_reclaimed_spot_instance_ends_exited(sim: Simulated) -> None:
    instance_id = await sim.create("cheap", billingMode="spot")
    await sim.create("dear")
    sim.advance(10)

    assert sim.fault("spot_reclaim") == 1
    sim.advance(5)

    _, shown = await sim.ask("/gpu/instance", instanceId=instance_id)
    assert (shown["status"], shown["spotStatus"]) == ("exited", "terminated")
    assert shown["spotReclaimTime"] != "0"


async def test_faults_can_be_dropped(sim: Simulated) -> None:
    sim.fault("error_500", count=None)
    assert (await sim.ask("/clusters"))[0] == 500

    sim.no_more_faults()

    assert (await sim.ask("/clusters"))[0] == 200


async def shown(sim: Simulated, **query: object) -> tuple[int, list[tuple[str, str]]]:
    """What the list says: `total`, and name and status of each item."""
    _, body = await sim.ask("/gpu/instances", pageSize=100, pageNum=0, **query)
    return body["total"], [(item["name"], item["status"]) for item in body["instances"]]


async def test_a_list_that_lies_still_agrees_with_its_own_total(sim: Simulated) -> None:
    """A client cannot see from one response that machines are missing; lookups by id still find them."""
    ids = [await sim.create(name) for name in ("a", "b", "c")]
    sim.advance(10)

    sim.set(list_shows="half")
    assert await shown(sim) == (2, [("c", "running"), ("a", "running")])
    assert await shown(sim, name="b") == (0, [])
    sim.set(list_shows="nothing")
    assert await shown(sim) == (0, [])
    assert (await sim.ask("/gpu/instance", instanceId=ids[1]))[1]["name"] == "b"
    sim.set(list_shows="all")
    assert (await shown(sim))[0] == 3


async def test_an_old_list_shows_the_account_as_it_was(sim: Simulated) -> None:
    """New machines are missing, deleted ones still run, and statuses are those of then."""
    first = await sim.create("first")
    sim.advance(10)
    await sim.ask("/gpu/instance/delete", {"instanceId": first})
    await sim.create("second")
    sim.advance(8)

    assert await shown(sim) == (1, [("second", "running")])
    sim.set(list_age_seconds=10)
    assert await shown(sim) == (1, [("first", "running")])
    assert await shown(sim, status="running") == (1, [("first", "running")])
    sim.advance(10)
    assert await shown(sim) == (1, [("second", "running")])
