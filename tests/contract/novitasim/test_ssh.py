"""Simulated machines have real ssh servers, if the settings say so."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from aiohttp import ClientSession, encode_basic_auth

from novitasim.testing import Simulated, start_simulator

_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Login:
    """What get shows of a machine's ssh."""

    port: int
    password: str

    async def connect(self, *, password: str | None = None) -> asyncssh.SSHClientConnection:
        return await asyncssh.connect(
            "127.0.0.1",
            self.port,
            username="root",
            password=self.password if password is None else password,
            known_hosts=None,
            client_keys=None,
            config=None,
        )


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    async with start_simulator(ssh="server") as simulated:
        yield simulated


async def shown(sim: Simulated, instance_id: str) -> dict[str, Any]:
    _, body = await sim.ask("/gpu/instance", instanceId=instance_id)
    return dict(body)


async def login(sim: Simulated, instance_id: str) -> Login:
    component = (await shown(sim, instance_id))["connectComponentSSH"]
    ssh, dash_p, port, where = component["sshCommand"].split()
    assert (ssh, dash_p, where, component["isRunning"]) == ("ssh", "-p", "root@127.0.0.1", True)
    return Login(int(port), component["password"])


async def up(sim: Simulated, name: str = "box", **fields: object) -> str:
    instance_id = await sim.create(name, **fields)
    sim.advance(5)
    return instance_id


async def host_key(login: Login) -> str:
    key = await asyncssh.get_server_host_key("127.0.0.1", login.port, config=None)
    assert key is not None
    return key.export_public_key().decode()


async def test_each_machine_has_a_login_a_port_and_a_host_key_of_its_own(sim: Simulated) -> None:
    instance_id = await up(sim, envs=[{"key": "MODE", "value": "prod"}])
    one, two = await login(sim, instance_id), await login(sim, await up(sim, "other"))

    async with await one.connect() as connection:
        done = await connection.run("hostname; echo $MODE; nope")
        assert (done.stdout, done.stderr) == ("box\nprod\n", "sh: nope: command not found\n")
        assert done.exit_status == 127
        assert (await connection.run(input="whoami\nexit 3\n")).stdout == "root\n"
        assert (await connection.run("cat", input="a\nb\n")).stdout == "a\nb\n"

    assert one.port != two.port
    assert one.password != two.password
    assert await host_key(one) != await host_key(two)
    with pytest.raises(asyncssh.PermissionDenied):
        await one.connect(password=two.password)
    assert {port["port"]: port["endpoint"] for port in (await shown(sim, instance_id))["portMappings"]}[
        22
    ] == f"127.0.0.1:{one.port}"


async def test_a_forwarded_port_answers_as_its_endpoint_and_nothing_else_is_reached(sim: Simulated) -> None:
    instance_id = await up(sim, envs=[{"key": "SIM_GUEST", "value": "login"}])
    endpoint = (await shown(sim, instance_id))["portMappings"][0]["endpoint"]
    provider = int(sim.root_url.rpartition(":")[2])

    async with await (await login(sim, instance_id)).connect() as connection, ClientSession() as session:
        async with connection.forward_local_port("127.0.0.1", 0, "localhost", 8080) as forward:
            answers = []
            for url in (f"http://127.0.0.1:{forward.get_port()}/a", f"{endpoint}/a"):
                async with session.get(url) as response:
                    answers.append((response.status, await response.text()))
        for host, port in (("localhost", provider), ("localhost", 8081), ("example.com", 8080), ("10.0.0.1", 8080)):
            with pytest.raises(asyncssh.ChannelOpenError):
                await connection.open_connection(host, port)

    assert answers[0][0] == 401
    assert answers[0] == answers[1]


async def test_a_stop_ends_the_connection_and_a_start_keeps_port_and_host_key(sim: Simulated) -> None:
    instance_id = await up(sim)
    before = await login(sim, instance_id)
    key = await host_key(before)
    connection = await before.connect()
    await sim.ask("/gpu/instance/stop", {"instanceId": instance_id})
    sim.advance(2)
    await asyncio.wait_for(connection.wait_closed(), 10)
    with pytest.raises((OSError, asyncssh.Error)):
        await before.connect()
    assert (await shown(sim, instance_id))["connectComponentSSH"] == {
        "sshCommand": "",
        "password": "",
        "isRunning": False,
    }
    await sim.ask("/gpu/instance/start", {"instanceId": instance_id})
    sim.advance(2)

    assert await login(sim, instance_id) == before
    assert await host_key(before) == key


async def test_a_restart_may_change_port_and_host_key(sim: Simulated) -> None:
    sim.set(ssh_port_changes=True, ssh_host_key="new")
    instance_id = await up(sim)
    before = await login(sim, instance_id)
    key = await host_key(before)
    await sim.ask("/gpu/instance/restart", {"instanceId": instance_id})
    sim.advance(2)
    after = await login(sim, instance_id)

    assert after.port != before.port
    assert await host_key(after) != key


async def test_logins_outlive_a_restart_of_the_simulator(tmp_path: Path) -> None:
    state = tmp_path / "world"
    async with start_simulator(ssh="server", state=state) as sim:
        instance_id = await up(sim)
        before = await login(sim, instance_id)
        key = await host_key(before)
    async with start_simulator(ssh="server", state=state) as sim:
        # Before anything shows the address again.
        assert await host_key(before) == key
        assert await login(sim, instance_id) == before


async def test_so_many_machines_have_servers_and_a_removed_one_makes_room(sim: Simulated) -> None:
    sim.set(ssh_listeners=1)
    first = await up(sim)
    await login(sim, first)
    _, greeting = await asyncio.open_connection("127.0.0.1", (await login(sim, await up(sim, "second"))).port)
    greeting.close()
    await sim.ask("/gpu/instance/delete", {"instanceId": first})
    sim.advance(5)
    third = await login(sim, await up(sim, "third"))

    async with await third.connect() as connection:
        assert (await connection.run("hostname")).stdout == "third\n"


async def test_without_asyncssh_no_ssh_is_offered_and_the_log_says_so_once(
    sim: Simulated, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "asyncssh", None)

    with caplog.at_level(logging.WARNING, "novitasim"):
        for name in ("one", "two"):
            instance = await shown(sim, await up(sim, name))
            assert instance["connectComponentSSH"]["sshCommand"] == ""
            assert instance["connectComponentSSH"]["password"] == ""

    assert [record.message for record in caplog.records] == [
        "simulated machines offer no ssh: asyncssh is not installed (extra `simulator`)"
    ]


async def test_the_web_terminal_asks_for_the_password_and_jupyter_answers(sim: Simulated) -> None:
    instance = await shown(sim, await up(sim, tools=[{"name": "Jupyter", "port": "8888", "type": "http"}]))
    terminal = instance["connectComponentWebTerminal"]
    auth = {"Authorization": encode_basic_auth(terminal["username"], terminal["password"])}

    async with ClientSession() as session:
        async with session.get(terminal["address"]) as response:
            assert response.status == 401
        async with session.get(terminal["address"], headers=auth) as response:
            assert response.status == 200
        async with session.get(instance["connectComponentJupyter"]["address"]) as response:
            assert response.status == 200


async def test_the_systems_own_ssh_logs_in(sim: Simulated, tmp_path: Path) -> None:
    target = await login(sim, await up(sim))
    askpass = tmp_path / "askpass"
    askpass.write_text('#!/bin/sh\necho "$PASSWORD"\n')
    askpass.chmod(0o700)
    process = await asyncio.create_subprocess_exec(
        *("ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path / 'known'}"),
        *("-p", str(target.port), "root@127.0.0.1", "hostname"),
        env={"SSH_ASKPASS": str(askpass), "SSH_ASKPASS_REQUIRE": "force", "PASSWORD": target.password, "PATH": _PATH},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()

    assert (process.returncode, output) == (0, b"box\n")


async def test_a_key_that_was_added_by_password_logs_in_from_then_on(sim: Simulated) -> None:
    """As `ssh-copy-id` adds it; on that machine only, also after a restart."""
    instance_id, other = await up(sim), await up(sim, "other")
    key = asyncssh.generate_private_key("ssh-ed25519")

    async def by_key(login: Login) -> asyncssh.SSHClientConnection:
        options: Any = {"username": "root", "known_hosts": None, "client_keys": [key], "config": None}
        return await asyncssh.connect("127.0.0.1", login.port, **options)

    with pytest.raises(asyncssh.PermissionDenied):
        await by_key(await login(sim, instance_id))
    async with await (await login(sim, instance_id)).connect() as connection:
        command = "umask 077; mkdir -p ~/.ssh; cat >> ~/.ssh/authorized_keys"
        added = await connection.run(command, input=f"# no key\n{key.export_public_key().decode()}")
    await sim.ask("/gpu/instance/restart", {"instanceId": instance_id})
    sim.advance(2)
    async with await by_key(await login(sim, instance_id)) as connection:
        name = (await connection.run("hostname")).stdout
    with pytest.raises(asyncssh.PermissionDenied):
        await by_key(await login(sim, other))

    assert (added.exit_status, name) == (0, "box\n")
