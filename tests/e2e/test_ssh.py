"""Logins on machines with the system's own ssh: the installed command, a running service, real ssh servers."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from support.clock.waiting import until
from support.http.servers import unused_port
from support.processes.forked import ForkedProcess, fork, pipe
from support.processes.process import CORRAL, Running, clean_environment, quicken, run, serving
from support.processes.terminal import on_terminal

from corral_client import AsyncClient
from corral_client.models.orders import Order

PORT = 8000
SSH = shutil.which("ssh") or ""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, kw_only=True)
class Computer:
    """A user's computer: a home directory with a space in its path, and a service to call."""

    home: Path
    service: Running
    simulator: str
    client: AsyncClient

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.home), "CORRAL_URL": self.service.address}

    async def corral(self, *arguments: str) -> tuple[int, str, str]:
        return await run(*arguments, cwd=self.home, **self.environ)

    async def ssh(self, *words: str) -> tuple[int, str, str]:
        """Plain ssh, which must never ask; it takes the home directory from the list of users, not from HOME."""
        config = self.home / ".ssh" / "config"
        process = await asyncio.create_subprocess_exec(
            *(SSH, "-F", str(config), "-o", "BatchMode=yes", *words),
            env=clean_environment(**self.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def create(self, name: str) -> str:
        """A ready machine; returns its id."""
        order = Order(name=name, product_name="RTX 4090 24GB", template_id="107672", ports=[f"{PORT}/http", "22/tcp"])
        return (await (await self.client.instances.create(**order)).wait_until_ready(timeout=60)).id

    async def set_simulator(self, **settings: str) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.simulator}/_sim/settings", json=settings) as response,
        ):
            assert response.status == 200, await response.text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def computer(short_dir: Path) -> AsyncGenerator[Computer]:
    """One service for all tests of this file, and one machine `box`, which no test changes."""
    assert SSH, "these tests need ssh: install the package openssh-client (Debian, Ubuntu) or openssh-clients (Fedora)"
    data_dir, home = short_dir / "ssh" / ".corral", short_dir / "ssh" / "my home"
    async with serving(data_dir, LOG_LEVEL="warning") as service, AsyncClient(service.address) as client:
        home.mkdir()
        await quicken(data_dir)
        simulator = (data_dir / "simulator" / "address").read_text().strip()
        computer = Computer(home=home, service=service, simulator=simulator, client=client)
        await computer.create("box")
        yield computer


async def hostname(computer: Computer, name: str) -> str:
    """What the machine itself says: the name that the provider was given."""
    code, out, err = await computer.corral("ssh", name, "--", "hostname")
    assert code == 0, err
    return out


@asynccontextmanager
async def running(computer: Computer, *arguments: str) -> AsyncGenerator[tuple[ForkedProcess, int, bytearray]]:
    """`corral` with *arguments*, what is typed into it, and what it has written so far."""
    said, (read, write) = bytearray(), os.pipe()
    environ = clean_environment(**computer.environ)
    async with pipe() as (out, lines):
        process = await fork(
            [str(CORRAL), *arguments], cwd=computer.home, environ=environ, stdin=read, stdout=out, stderr=out
        )
    os.close(read)

    async def collect() -> None:
        while piece := await lines.read(4096):
            said.extend(piece)

    collecting = asyncio.create_task(collect())
    try:
        yield process, write, said
    finally:
        os.close(write)
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await collecting


async def test_a_command_runs_on_the_machine_and_its_exit_code_is_passed_on(computer: Computer) -> None:
    """As with ssh itself; options after `--` belong to the command."""
    smi, seven, unknown = await asyncio.gather(
        computer.corral("ssh", "box", "--", "nvidia-smi", "-L"),
        computer.corral("ssh", "box", "--", "exit 7"),
        computer.corral("ssh", "box", "--", "no-such-command"),
    )

    assert (smi[0], smi[1]) == (0, "GPU 0: NVIDIA RTX 4090 24GB\n")
    assert (seven[0], unknown[0]) == (7, 127)
    assert "command not found" in unknown[2]


async def test_the_password_is_in_no_argument_variable_or_file(computer: Computer) -> None:
    """While ssh runs, other users see its arguments; afterwards, backups see the files."""
    code, out, _ = await computer.corral("ssh", "box", "--password")
    password = out.strip()
    assert (code, len(password) > 5) == (0, True)

    async with running(computer, "ssh", "box", "--", "cat") as (process, typed, said):
        os.write(typed, b"echoed by the machine\n")
        await until(lambda: b"echoed by the machine" in said)
        seen = [Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]

    assert seen[0].startswith(SSH.encode())
    assert b"SSH_ASKPASS=" in seen[1]
    files = [file for file in computer.home.rglob("*") if file.is_file()]
    assert files
    assert not [name for name in [*seen, *(file.read_bytes() for file in files)] if password.encode() in name]


async def test_a_shell_on_a_terminal(computer: Computer) -> None:
    """With the machine's prompt; its end is the command's."""
    async with on_terminal("ssh", "box", environ=computer.environ) as terminal:
        await terminal.shows(":~# ")
        terminal.type("whoami\r")
        await terminal.shows("root\n")
        terminal.type("exit 3\r")
        assert await terminal.end() == 3


async def test_machines_are_reached_by_name_with_plain_ssh(computer: Computer) -> None:
    """
    Without a question, also after the machine got another port, and another machine the name.

    A host key that changed would end in an alarm: it is another machine's, and ssh has never seen it.
    """
    before = computer.home / ".ssh" / "config"
    before.parent.mkdir(mode=0o700, exist_ok=True)
    before.write_text("Host elsewhere\n    User me\n")
    installed = await computer.corral("ssh-config", "--install")
    first = await computer.create("named")
    said = await hostname(computer, "named")

    named = await computer.ssh("corral-named", "hostname")
    again = await computer.ssh("corral-named", "exit 4")
    await computer.set_simulator(ssh_port_changes="true")
    address = (await computer.client.instances.credentials(first)).ssh
    await (await computer.client.instances.restart(first)).wait_until_ready(timeout=60)
    moved = (await computer.client.instances.credentials(first)).ssh
    restarted = await computer.ssh("corral-named", "hostname")
    await (await computer.client.instances.delete(first)).wait_until_gone(timeout=60)
    gone = await computer.ssh("corral-named", "hostname")
    await computer.create("named")
    recreated = await computer.ssh("corral-named", "hostname")
    removed = await computer.corral("ssh-config", "--remove")

    assert installed[0] == 0
    assert (named[0], named[1]) == (0, said), named[2]
    assert again[0] == 4
    assert address is not None
    assert moved is not None
    assert address.port != moved.port
    assert (restarted[0], restarted[1]) == (0, said), restarted[2]
    assert gone[0] == 255
    assert (recreated[0], recreated[1] not in {"", said}) == (0, True), recreated[2]
    assert "IDENTIFICATION HAS CHANGED" not in recreated[2]
    assert (removed[0], before.read_text()) == (0, "Host elsewhere\n    User me\n")
    assert [file.name for file in before.parent.iterdir()] == ["config"]


async def test_ssh_reads_the_configuration_as_it_is_meant(computer: Computer) -> None:
    """Paths with a space stay whole, and a host name with a quote in it reaches no shell."""
    await computer.corral("ssh-config", "--install")
    config = str(computer.home / ".ssh" / "config")

    async def read(host: str) -> str:
        words = (SSH, "-G", "-F", config, host)
        process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, stderr=-3)
        return (await process.communicate())[0].decode()

    box, quoted, other = await asyncio.gather(read("corral-box"), read("corral-a'b"), read("elsewhere"))
    await computer.corral("ssh-config", "--remove")

    ssh = computer.home / ".ssh"
    assert f"proxycommand {CORRAL} ssh-proxy '%n'\n" in box
    assert f"userknownhostsfile {ssh}/corral_hosts/corral-box" in box
    assert f"identityfile {ssh}/corral_key" in box
    assert "proxycommand" not in quoted + other


async def test_a_port_of_a_machine_is_here_until_it_is_not_wanted(computer: Computer) -> None:
    """Also after a restart of the machine, with a message; a port that is taken is named before anything is done."""
    machine, local = await computer.create("served"), unused_port()
    url = f"http://127.0.0.1:{local}/"

    async with running(computer, "port-forward", "served", f"{local}:{PORT}") as (process, _, said):
        await until(lambda: f"127.0.0.1:{local} is port {PORT} of served, through ssh".encode() in said)
        first = await status(url)
        taken = await computer.corral("port-forward", "served", f"{local}:{PORT}")
        restarting = await computer.client.instances.restart(machine)
        await restarting.wait_until_ready(timeout=60)
        await until(lambda: said.count(b"through ssh") == 2)
        second = await status(url)
        os.kill(process.pid, signal.SIGINT)
        code = await process.wait()

    assert first == second == 200
    assert b"The connection to served was lost; connecting again." in said
    assert code == 130
    assert (taken[0], f"port {local} is in use on this computer" in taken[2]) == (1, True)
    with pytest.raises(aiohttp.ClientConnectorError):
        await status(url)


async def status(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status


@pytest.mark.parametrize("session", [("ssh", "box", "--", "cat"), ("ssh-proxy", "box"), ("port-forward", "box", "")])
async def test_an_open_session_counts_as_use(computer: Computer, session: tuple[str, ...]) -> None:
    """Editors use `ssh-proxy`. What reports it has neither the terminal nor the pipes, and ends with the session."""
    await computer.client.instances.set_lease("box", idle={"after": "2h"})
    before = (await computer.client.instances.used("box")).last_used_at
    words = [word or f"{unused_port()}:{PORT}" for word in session]

    async def is_used() -> bool:
        lease = (await computer.client.instances.get("box")).lease
        return lease is not None and lease.last_used_at is not None and lease.last_used_at > before

    async with running(computer, *words) as (process, _, _said):
        await until(is_used, what="a report of use")
        helpers = children_of(process.pid)

    await until(lambda: not [pid for pid in helpers if Path(f"/proc/{pid}").exists()], what="its end")


def children_of(pid: int) -> list[int]:
    """The processes that *pid* started and that still run."""
    found: list[int] = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            if int(file.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(file.parent.name))
    return found


async def test_a_machine_that_offers_no_login_is_said_to(computer: Computer) -> None:
    """Before ssh is started; a machine that does not exist has its own exit code."""
    machine = await computer.create("asleep")
    await (await computer.client.instances.stop(machine)).wait_until_stopped(timeout=60)

    stopped, forwarded, unknown = await asyncio.gather(
        computer.corral("ssh", "asleep", "--", "true"),
        computer.corral("port-forward", "asleep", str(unused_port())),
        computer.corral("ssh", "nothing", "--", "true"),
    )

    assert (stopped[0], forwarded[0], unknown[0]) == (1, 5, 4)
    assert re.search("asleep|login|stopped", stopped[2])


async def test_what_a_machine_serves_is_opened(computer: Computer) -> None:
    """Without a terminal its address is printed."""
    served, jupyter, missing = await asyncio.gather(
        computer.corral("open", "box"),
        computer.corral("open", "box", "--jupyter"),
        computer.corral("open", "box", "--port", "9"),
    )

    assert (served[0], served[1].startswith("http://127.0.0.1:")) == (0, True)
    assert (jupyter[0], jupyter[1].startswith("http://127.0.0.1:")) == (0, True)
    assert (missing[0], f"it has {PORT}" in missing[2]) == (1, True)
