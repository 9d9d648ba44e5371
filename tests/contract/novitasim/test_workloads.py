"""Guests really answer on loopback ports."""

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
    async with ClientSession(timeout=ClientTimeout(total=5)) as opened:
        yield opened


async def endpoints(sim: Simulated, instance_id: str) -> dict[int, str]:
    _, body = await sim.ask("/gpu/instance", instanceId=instance_id)
    return {mapping["port"]: mapping["endpoint"] for mapping in body["portMappings"]}


async def up(sim: Simulated, behaviour: str) -> dict[int, str]:
    """The endpoints of an instance that has just started, with this behaviour."""
    instance_id = await sim.create(envs=[{"key": "SIM_GUEST", "value": behaviour}])
    sim.advance(5)
    return await endpoints(sim, instance_id)


async def get(session: ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as response:
        return response.status, await response.text()


@pytest.mark.parametrize(
    ("behaviour", "status", "words"),
    [
        ("healthy", 200, "It works"),
        ("login", 401, "Sign in"),
        ("gateway_200", 200, "502 Bad Gateway"),
        ("status:503", 503, "503"),
    ],
)
async def test_a_web_port_answers_as_its_behaviour_says(
    sim: Simulated, session: ClientSession, behaviour: str, status: int, words: str
) -> None:
    where = await up(sim, behaviour)

    answered = await get(session, f"{where[8080]}/some/path?x=1")

    assert answered[0] == status
    assert words in answered[1]


async def test_a_slow_workload_is_a_bad_gateway_first(sim: Simulated, session: ClientSession) -> None:
    where = await up(sim, "slow:30")
    first = await get(session, where[8080])
    sim.advance(30)

    assert first[0] == 502
    assert (await get(session, where[8080]))[0] == 200


async def test_a_refusing_workload_has_no_listener(sim: Simulated, session: ClientSession) -> None:
    where = await up(sim, "refused")

    with pytest.raises(aiohttp.ClientConnectorError):
        await get(session, where[8080])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*where[22].split(":"))


async def test_a_hanging_workload_never_answers(sim: Simulated, session: ClientSession) -> None:
    where = await up(sim, "hang")

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(get(session, where[8080]), 0.2)


async def test_a_tcp_port_greets_like_ssh(sim: Simulated) -> None:
    where = await up(sim, "healthy")

    reader, writer = await asyncio.open_connection(*where[22].split(":"))
    greeting = await reader.readline()
    writer.close()
    await writer.wait_closed()

    assert greeting.startswith(b"SSH-2.0-")


async def test_a_stopped_instance_is_a_bad_gateway(sim: Simulated, session: ClientSession) -> None:
    instance_id = await sim.create()
    sim.advance(5)
    where = await endpoints(sim, instance_id)
    await sim.ask("/gpu/instance/stop", {"instanceId": instance_id})
    sim.advance(2)

    assert (await get(session, where[8080]))[0] == 502
    assert await endpoints(sim, instance_id) == {8080: "", 22: ""}


async def test_endpoints_may_change_with_every_start(sim: Simulated, session: ClientSession) -> None:
    sim.set(endpoint_changes_on_start=True)
    instance_id = await sim.create()
    sim.advance(5)
    before = await endpoints(sim, instance_id)
    for act in ("stop", "start"):
        await sim.ask(f"/gpu/instance/{act}", {"instanceId": instance_id})
        sim.advance(2)
    after = await endpoints(sim, instance_id)

    assert before[8080] != after[8080]
    assert (await get(session, before[8080]))[0] == 502
    assert (await get(session, after[8080]))[0] == 200


async def test_every_endpoint_may_have_a_port_of_its_own(sim: Simulated, session: ClientSession) -> None:
    sim.set(guest_mode="own_port")
    one, two = await up(sim, "healthy"), await up(sim, "login")

    assert len({*one.values(), *two.values()}) == 4
    assert one[8080].count("/") == 2
    assert (await get(session, f"{one[8080]}/health"))[0] == 200
    assert (await get(session, f"{two[8080]}/health"))[0] == 401
    reader, writer = await asyncio.open_connection(*two[22].split(":"))
    assert (await reader.readline()).startswith(b"SSH-2.0-")
    writer.close()
    await writer.wait_closed()


async def test_an_own_port_breaks_the_connection_once_its_instance_is_stopped(
    sim: Simulated, session: ClientSession
) -> None:
    sim.set(guest_mode="own_port")
    instance_id = await sim.create()
    sim.advance(5)
    where = await endpoints(sim, instance_id)
    await sim.ask("/gpu/instance/stop", {"instanceId": instance_id})
    sim.advance(2)

    with pytest.raises(aiohttp.ClientConnectionError):
        await get(session, where[8080])


async def test_the_ports_of_a_removed_instance_are_closed_in_time(sim: Simulated, session: ClientSession) -> None:
    sim.set(guest_mode="own_port")
    instance_id = await sim.create()
    sim.advance(5)
    where = await endpoints(sim, instance_id)
    await sim.ask("/gpu/instance/delete", {"instanceId": instance_id})
    sim.advance(5)
    other = await up(sim, "healthy")  # opening a port closes unused ones
    assert (await get(session, other[8080]))[0] == 200

    with pytest.raises(aiohttp.ClientConnectorError):
        await get(session, where[8080])


async def test_workloads_are_distinguished_by_host_name(sim: Simulated, session: ClientSession) -> None:
    sim.set(guest_mode="localhost")
    where = (await up(sim, "login"))[8080]
    host, port = where.removeprefix("http://").split(":")

    async with session.get(f"http://127.0.0.1:{port}/", headers={"Host": f"{host}:{port}"}) as response:
        assert response.status == 401


async def test_realistic_names_look_like_the_providers(sim: Simulated) -> None:
    sim.set(guest_mode="realistic")
    instance_id = await sim.create()
    sim.advance(5)

    where = await endpoints(sim, instance_id)

    assert where[8080] == f"https://{instance_id}-8080.us-ca-6.gpu-instance.novita.ai"
    assert where[22].startswith("proxy.us-ca-6.gpu-instance.novita.ai:")


async def test_an_unknown_workload_is_not_found(sim: Simulated, session: ClientSession) -> None:
    where = await up(sim, "healthy")

    assert (await get(session, where[8080].rsplit("/", 2)[0] + "/ffffffff/80"))[0] == 404
