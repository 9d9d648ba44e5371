"""Instances from the shell: the installed command on a running service."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from support.process import CORRAL, Running, clean_environment, quicken, run, serving
from support.servers import unused_port
from support.waiting import until

GPU = ("--product", "RTX 4090 24GB")
UBUNTU = (*GPU, "--template", "150020")
NEVER_HEALTHY = (*GPU, "--template", "150033")
BROKEN_IMAGE = (*GPU, "--template", "150034")

pytestmark = pytest.mark.asyncio(loop_scope="module")

Shell = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corral(short_dir: Path) -> AsyncGenerator[Running]:
    """One service for all tests of this file; each uses names of its own."""
    data_dir = short_dir / "cli" / ".corral"
    async with serving(data_dir, LOG_LEVEL="warning") as running:
        await quicken(data_dir)
        yield running


@pytest.fixture
def shell(corral: Running, tmp_path: Path) -> Shell:
    """Runs a command with pipes, which must never get an escape code."""

    async def run_piped(*arguments: str) -> tuple[int, str, str]:
        result = await run(*arguments, "--url", corral.address, cwd=tmp_path)
        assert "\x1b" not in result[1] + result[2]
        assert "Traceback" not in result[2]
        return result

    return run_piped


def read(output: str) -> Any:
    return msgspec.json.decode(output)


async def test_a_machine_from_the_shell(shell: Shell) -> None:
    """Create, look, log in, delete, in words."""
    created = await shell("create", "web", *UBUNTU)
    listed, shown, login, why = await asyncio.gather(
        shell("ls"), shell("show", "web"), shell("ssh", "web"), shell("why", "web")
    )
    removed = await shell("rm", "web", "--wait")
    left = await shell("ls", "--name", "web", "--json")

    assert (created[0], created[2]) == (0, "")
    assert re.search(r"^status +ready$", created[1], re.MULTILINE)
    assert re.search(r"^web +inst_\w+ +ready ", listed[1], re.MULTILINE)
    assert shown[1].splitlines()[:2] == created[1].splitlines()[:2]
    assert re.fullmatch(r"ssh -p [0-9]+ root@127\.0\.0\.1\n", login[1])
    assert re.search(r"^because +healthy$", why[1], re.MULTILINE)
    assert re.search(r"^create +completed", why[1], re.MULTILINE)
    assert removed[0] == 0
    assert removed[1].endswith(" is gone\n")
    assert read(left[1]) == []


async def test_everything_speaks_json(shell: Shell) -> None:
    """One document each; events one a line, as they have no end."""
    created = read((await shell("create", "api", *UBUNTU, "--no-wait", "--json"))[1])
    instance_id = created["instanceId"]
    ready, plan, listed, products, jobs, templates = (
        read(output)
        for _, output, _ in await asyncio.gather(
            shell("wait", "api", "--json"),
            shell("create", "api", *UBUNTU, "--plan", "--json"),
            shell("ls", "--json"),
            shell("products", "4090", "--json"),
            shell("jobs", "--instance", "api", "--json"),
            shell("templates", "--json"),
        )
    )
    why, login, events = await asyncio.gather(
        shell("why", instance_id, "--json"), shell("ssh", "api", "--json"), shell("events", "api", "--json")
    )

    assert (ready["id"], ready["status"]) == (instance_id, "ready")
    assert plan["candidates"][0]["productName"] == "RTX 4090 24GB"
    assert instance_id in {instance["id"] for instance in listed}
    assert all("4090" in product["name"] for product in products)
    assert {job["payload"]["instanceId"] for job in jobs} == {instance_id}
    assert {template["channel"] for template in templates} >= {"official"}
    assert read(why[1])["operations"][0]["kind"] == "create"
    assert read(login[1])["ssh"].startswith("ssh ")
    happened = [read(line)["event"] for line in events[1].splitlines()]
    assert (happened[0], happened[-1]) == ("instance.created", "instance.ready")
    assert [one["status"] for one in read((await shell("rm", "api", "--json"))[1])] == ["deleting"]


async def test_a_failure_is_told_with_what_to_do_next(shell: Shell) -> None:
    """Exit code 5, the provider's own words, and the next step."""
    code, output, errors = await shell("create", "broken", *BROKEN_IMAGE)
    why = await shell("why", "broken")

    assert (code, output) == (5, "")
    assert "PROVISIONING_FAILED" in errors
    assert "corral why inst_" in errors
    assert "manifest unknown" in why[1]
    assert re.search(r"^you can +the provider could not make it run", why[1], re.MULTILINE)


async def test_exit_codes_tell_a_script_what_happened(shell: Shell, corral: Running, tmp_path: Path) -> None:
    """As `corral --help` lists them."""
    twins = await asyncio.gather(*(shell("create", "twin", *UBUNTU, "--no-wait") for _ in range(2)))
    nowhere = f"http://127.0.0.1:{unused_port()}"
    missing, invalid, usage, two, unreachable, late, no_product = await asyncio.gather(
        shell("show", "nobody"),
        shell("create", "bad name", *UBUNTU, "--gpus", "9"),
        shell("create", "x"),
        shell("rm", "twin"),
        run("ls", "--url", nowhere, cwd=tmp_path),
        shell("create", "never", *NEVER_HEALTHY, "--timeout", "0"),
        shell("create", "x", "--product", "Abacus", "--template", "150020"),
    )
    help_text = (await run("--help", cwd=tmp_path))[1]

    assert (missing[0], missing[2]) == (4, "corral: there is no instance 'nobody'\n")
    assert invalid[0] == 2
    assert "gpuNum: must be" in invalid[2]
    assert usage[0] == 2
    assert two[0] == 1
    assert all(made[1].strip() in two[2] for made in twins)
    assert unreachable[0] == 3
    assert f"{nowhere} cannot be reached" in unreachable[2]
    assert late[0] == 1
    assert "it goes on: corral wait inst_" in late[2]
    assert no_product[0] == 4
    assert "Exit codes" in help_text
    assert corral.process.returncode is None


async def test_events_are_followed_until_interrupted(shell: Shell, corral: Running, tmp_path: Path) -> None:
    """Each on a line, at once, also into a pipe."""
    await shell("create", "followed", *UBUNTU, "--no-wait")
    following = await asyncio.create_subprocess_exec(
        *(str(CORRAL), "events", "-f", "--after", "0", "--json", "--url", corral.address),
        cwd=tmp_path,
        env=clean_environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert following.stdout is not None
    first = read((await following.stdout.readline()).decode())
    following.send_signal(signal.SIGINT)
    _, errors = await following.communicate()

    assert first["seq"] == 1
    assert following.returncode == 130
    assert b"Traceback" not in errors


async def test_a_terminal_shows_progress_and_ctrl_c_leaves_the_work(shell: Shell, corral: Running) -> None:
    """A live line with status, time and estimate; then how to come back."""
    near, far = os.openpty()
    seen = bytearray()
    loop = asyncio.get_running_loop()
    loop.add_reader(near, lambda: seen.extend(os.read(near, 65536)))
    try:
        creating = await asyncio.create_subprocess_exec(
            *(str(CORRAL), "create", "patient", *NEVER_HEALTHY, "--url", corral.address),
            env=clean_environment(TERM="xterm-256color", COLUMNS="120"),
            stdin=far,
            stdout=far,
            stderr=far,
        )
        await until(lambda: b" left" in seen, what="the live line")
        creating.send_signal(signal.SIGINT)
        code = await creating.wait()
        await until(lambda: b"corral rm inst_" in seen, what="the way back")
    finally:
        loop.remove_reader(near)
        os.close(near)
        os.close(far)
    text = seen.decode()
    instance_id = re.findall(r"corral wait (inst_\w+) --url", text)[0]

    assert code == 130
    assert "\x1b[" in text
    assert re.search(r"patient.*(creating|starting|running|health_checking).* s, about 4 min left", text)
    assert "Traceback" not in text
    assert read((await shell("show", instance_id, "--json"))[1])["operation"]["status"] not in {"failed", "cancelled"}
