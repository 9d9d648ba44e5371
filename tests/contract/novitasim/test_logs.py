"""Log addresses are HTTP streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
import pytest
from aiohttp import ClientSession, ClientTimeout

from novitasim.testing import Simulated, start_simulator


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    async with start_simulator() as simulated:
        yield simulated


@pytest.fixture
async def session() -> AsyncGenerator[ClientSession]:
    async with ClientSession(timeout=ClientTimeout(total=10)) as opened:
        yield opened


async def addresses(sim: Simulated, behaviour: str = "normal", *, seconds: float = 5) -> tuple[str, str]:
    """The system and the instance log of an instance that was created so long ago."""
    instance_id = await sim.create(envs=[{"key": "SIM_LOG", "value": behaviour}])
    sim.advance(seconds)
    _, body = await sim.ask("/gpu/instance", instanceId=instance_id)
    shown = body["connectComponentLog"]
    return shown["systemLogAddress"], shown["instanceLogAddress"]


async def read(session: ClientSession, url: str, **query: object) -> str:
    asked = {"follow": 0} | query
    async with session.get(url, params={name: str(value) for name, value in asked.items()}) as response:
        assert response.status == 200
        return await response.text()


async def test_both_logs_are_offered_from_the_creation_on(sim: Simulated, session: ClientSession) -> None:
    system, program = await addresses(sim, seconds=0)

    assert "is scheduled in us-ca-6" in await read(session, system)
    assert await read(session, program) == ""
    sim.set(log_offered="running")
    assert await addresses(sim, seconds=0) == ("", "")


async def test_a_tail_is_the_last_lines(sim: Simulated, session: ClientSession) -> None:
    system, _ = await addresses(sim)
    whole = await read(session, system)

    assert await read(session, system, tail=2) == "".join(whole.splitlines(keepends=True)[-2:])
    assert (await read(session, system, tail=1, sse=1)) == "data: Container started\n\n"


async def test_a_followed_log_goes_on_until_the_instance_is_removed(sim: Simulated, session: ClientSession) -> None:
    sim.set(log_interval_seconds=1)
    _, program = await addresses(sim)
    (instance,) = sim.instances()

    async with session.get(program) as response:
        first = [await response.content.readline() for _ in range(4)]
        sim.advance(1)
        assert (first[0], await response.content.readline()) == (
            b"Starting the image's own command\n",
            b"step 1\n",
        )
        await sim.ask("/gpu/instance/delete", {"instanceId": instance.id})
        sim.advance(5)
        assert (await response.content.read()).endswith(b"Received SIGTERM, exiting\n")


async def test_a_cut_log_breaks_off(sim: Simulated, session: ClientSession) -> None:
    system, _ = await addresses(sim, "cut")

    async with session.get(system) as response:
        assert b"scheduled" in await response.content.readline()
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()


async def test_a_stalled_log_says_no_more(sim: Simulated, session: ClientSession) -> None:
    system, _ = await addresses(sim, "stall")

    async with session.get(system, params={"follow": "0"}) as response:
        await response.content.readany()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(response.content.read(), 0.2)


@pytest.mark.parametrize("behaviour", ["endless", "long_line"])
async def test_an_endless_log_flows_until_the_client_leaves(
    sim: Simulated, session: ClientSession, behaviour: str
) -> None:
    system, _ = await addresses(sim, behaviour)

    async with session.get(system, params={"follow": "0"}) as response:
        got = await response.content.readexactly(3 * 1024 * 1024)

    assert (max(len(line) for line in got.split(b"\n")) >= 1024 * 1024) == (behaviour == "long_line")


async def test_a_garbage_log_holds_escape_sequences_and_is_not_utf8(sim: Simulated, session: ClientSession) -> None:
    system, _ = await addresses(sim, "garbage")

    async with session.get(system, params={"follow": "0"}) as response:
        got = await response.read()

    assert b"\x1b[2J" in got
    assert b"\x00" in got
    with pytest.raises(UnicodeDecodeError):
        got.decode()


async def test_a_log_may_lead_elsewhere(sim: Simulated, session: ClientSession) -> None:
    system, _ = await addresses(sim, "redirect:http://10.1.2.3/")
    async with session.get(system, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (302, "http://10.1.2.3/")

    system, program = await addresses(sim, "elsewhere")
    assert system.startswith("https://logs.elsewhere.example/")
    assert program.startswith("https://logs.elsewhere.example/")
    assert await addresses(sim, "elsewhere:http://10.1.2.3/x") == ("http://10.1.2.3/x",) * 2


async def test_a_log_may_fail_or_ask_for_the_key(sim: Simulated, session: ClientSession) -> None:
    system, _ = await addresses(sim, "status:503")
    async with session.get(system) as response:
        assert response.status == 503
    sim.set(log_auth="bearer")
    async with session.get(system) as response:
        assert response.status == 401
