"""Instances from the shell: the installed command on a running service."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from support.clock.waiting import until
from support.http.servers import unused_port
from support.processes.process import CORRAL, Running, clean_environment, quicken, run, serving

GPU = ("--product", "RTX 4090 24GB")
UBUNTU = (*GPU, "--template", "150020")
NEVER_HEALTHY = (*GPU, "--template", "150033")
UNSEEN = ("--product", "RTX 5090 32GB", "--template", "150033")
"""Of a product that no other test makes ready, so that nothing is learnt about how long it takes."""
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
    assert re.search(r"^next +watched in every listing of the provider; last seen at \d{4}-", why[1], re.MULTILINE)
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


async def test_a_machine_rests_and_wakes(shell: Shell) -> None:
    """Stop, start and restart, with and without waiting, in words and JSON."""
    await shell("create", "rest", *UBUNTU)
    stopped = await shell("stop", "rest", "--wait")
    again = await shell("stop", "rest")
    started = await shell("start", "rest", "--wait", "--json")
    restarted = await shell("restart", "rest", "--json")
    ready = await shell("wait", "rest", "--json")
    gone = await shell("rm", "rest", "--wait", "--json")

    assert (stopped[0], re.sub(r"inst_\w+", "ID", stopped[1])) == (0, "rest (ID) is exited\n")
    assert again == stopped
    assert [one["status"] for one in read(started[1])] == ["ready"]
    assert [one["status"] for one in read(restarted[1])] == ["restarting"]
    assert read(ready[1])["operation"]["kind"] == "restart"
    assert [one["status"] for one in read(gone[1])] == ["terminated"]


async def test_a_name_of_two_is_not_guessed_but_both_are_shown(shell: Shell) -> None:
    """Each with what distinguishes them; neither is changed."""
    one, other = [(await shell("create", "pair", *UBUNTU))[1].split("id        ")[1].split("\n")[0] for _ in range(2)]
    refused = await asyncio.gather(*(shell(verb, "pair") for verb in ("stop", "restart", "rm", "show", "ssh", "why")))
    left = read((await shell("ls", "--name", "pair", "--json"))[1])

    assert {code for code, _, _ in refused} == {1}
    for _, _, errors in refused:
        assert re.search(rf"^  {one}  ready  CN-HK-01  created \d", errors, re.MULTILINE)
        assert re.search(rf"^  {other}  ready  CN-HK-01  created \d", errors, re.MULTILINE)
    assert {instance["status"] for instance in left} == {"ready"}


async def test_a_failure_is_shown_with_the_next_step(shell: Shell) -> None:
    """Exit code 5, the provider's own words, and the next step."""
    code, output, errors = await shell("create", "broken", *BROKEN_IMAGE)
    why = await shell("why", "broken")

    assert (code, output) == (5, "")
    assert "PROVISIONING_FAILED" in errors
    assert "corral why inst_" in errors
    assert "manifest unknown" in why[1]
    assert re.search(r"^to do +The provider could not make it run", why[1], re.MULTILINE)


async def test_a_create_waits_for_capacity_as_long_as_it_says(shell: Shell, corral: Running, short_dir: Path) -> None:
    """A product that is sold out is refused, unless the request says how long it waits."""
    simulator = (short_dir / "cli" / ".corral" / "simulator" / "address").read_text().strip()
    async with aiohttp.ClientSession() as client:
        for cluster in ("as-sgp-2", "us-dallas-1", "sa-brazil-1"):
            empty = {"productId": "A100-80GB.14c240g", "clusterId": cluster, "gpus": 0}
            async with client.post(f"{simulator}/_sim/stock", json=empty) as response:
                assert response.status == 200, await response.text()
    await corral.ask("POST", "/api/cache/clear", json={})
    sold_out = ("--product", "A100 SXM 80GB", "--template", "150020", "--no-wait")
    refused, at_once, unclear, accepted = await asyncio.gather(
        shell("create", "later", *sold_out),
        shell("create", "later", *sold_out, "--until-available", "0"),
        shell("create", "later", *sold_out, "--until-available", "tomorrow"),
        shell("create", "later", *sold_out, "--until-available", "2h"),
    )

    assert (refused[0], at_once[0], unclear[0], accepted[0]) == (4, 4, 2, 0)
    assert "waitForCapacity: " in unclear[2]

    async def is_shown() -> bool:
        shown = read((await shell("show", accepted[1].strip(), "--json"))[1])
        return str(shown["reason"]).startswith("waiting for capacity")

    await until(is_shown, what="the reason of the wait")
    assert (await shell("rm", accepted[1].strip()))[0] == 0


async def test_exit_codes_show_a_script_what_happened(shell: Shell, corral: Running, tmp_path: Path) -> None:
    """As `corral --help` lists them."""
    twins = await asyncio.gather(*(shell("create", "twin", *UBUNTU, "--no-wait") for _ in range(2)))
    nowhere = f"http://127.0.0.1:{unused_port()}"
    missing, invalid, usage, two, unreachable, late, no_product = await asyncio.gather(
        shell("show", "missing"),
        shell("create", "bad name", *UBUNTU, "--gpus", "9"),
        shell("create", "x"),
        shell("rm", "twin"),
        run("ls", "--url", nowhere, cwd=tmp_path),
        shell("create", "never", *NEVER_HEALTHY, "--timeout", "0"),
        shell("create", "x", "--product", "Abacus", "--template", "150020"),
    )
    help_text = (await run("--help", cwd=tmp_path))[1]

    assert (missing[0], missing[2]) == (4, "corral: there is no instance 'missing'\n")
    assert invalid[0] == 2
    assert "gpuNum: must be" in invalid[2]
    assert usage[0] == 2
    assert two[0] == 1
    assert all(made[1].strip() in two[2] for made in twins)
    assert unreachable[0] == 3
    assert f"{nowhere} cannot be reached" in unreachable[2]
    assert late[0] == 1
    assert "the service continues: corral wait inst_" in late[2]
    assert no_product[0] == 4
    assert "Exit codes" in help_text
    assert corral.process.returncode is None


async def test_the_shell_completes_names(shell: Shell, corral: Running, tmp_path: Path) -> None:
    """As bash asks for it at a press of Tab: instances by name, templates by id; silence without a service."""
    await shell("create", "complete-me", *UBUNTU, "--no-wait")

    async def pressed_tab(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return (await run(cwd=tmp_path, _CORRAL_COMPLETE="complete_bash", **words))[1].split()

    at = f"--url {corral.address}"
    assert await pressed_tab(f"corral show {at} complete-") == ["complete-me"]
    assert "107672" in await pressed_tab(f"corral create x {at} --template ")
    assert set(await pressed_tab("corral re")) == {"rebuild", "restart", "resume"}
    assert await pressed_tab(f"corral show --url http://127.0.0.1:{unused_port()} a") == []


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


async def interrupted(*arguments: str, at: bytes, after: bytes) -> tuple[int, str]:
    """Run a command on a terminal, press Ctrl-C once *at* is shown; its exit code and all that was shown."""
    near, far = os.openpty()
    seen = bytearray()
    loop = asyncio.get_running_loop()
    loop.add_reader(near, lambda: seen.extend(os.read(near, 65536)))
    try:
        running = await asyncio.create_subprocess_exec(
            *(str(CORRAL), *arguments),
            env=clean_environment(TERM="xterm-256color", COLUMNS="160"),
            stdin=far,
            stdout=far,
            stderr=far,
        )
        await until(lambda: at in seen, what="the live line")
        running.send_signal(signal.SIGINT)
        code = await running.wait()
        await until(lambda: after in seen, what="the way back")
    finally:
        loop.remove_reader(near)
        os.close(near)
        os.close(far)
    assert "Traceback" not in seen.decode()
    return code, seen.decode()


async def test_a_start_on_a_terminal_continues_after_ctrl_c(shell: Shell, corral: Running) -> None:
    """The live line names the ports that are checked; giving up means stopping it, because it has a disk."""
    made = read((await shell("create", "napper", *NEVER_HEALTHY, "--no-wait", "--json"))[1])["instanceId"]
    await shell("wait", made, "--timeout", "0")
    await until_status(shell, made, "health_checking")
    await shell("stop", made, "--wait")
    code, text = await interrupted(
        *("start", made, "--wait", "--url", corral.address), at=b"unhealthy", after=b"corral stop inst_"
    )

    assert code == 130
    assert re.search(r"napper.*health_checking.*port \d+ unhealthy", text)
    assert f"Come back with: corral wait {made} --url" in text
    assert read((await shell("show", made, "--json"))[1])["operation"]["kind"] == "start"


async def until_status(shell: Shell, named: str, status: str) -> None:
    async def reached() -> bool:
        return bool(read((await shell("show", named, "--json"))[1])["status"] == status)

    await until(reached, what=f"{named} being {status}")


async def test_a_terminal_shows_progress_and_ctrl_c_leaves_the_work(shell: Shell, corral: Running) -> None:
    """A live line with status, time and estimate; then how to come back."""
    code, text = await interrupted(
        *("create", "patient", *UNSEEN, "--url", corral.address), at=b" left", after=b"corral rm inst_"
    )
    instance_id = re.findall(r"corral wait (inst_\w+) --url", text)[0]

    assert code == 130
    assert "\x1b[" in text
    assert re.search(r"patient.*(creating|starting|running|health_checking).* s, about (4 min|3 min \d+ s) left", text)
    assert read((await shell("show", instance_id, "--json"))[1])["operation"]["status"] not in {"failed", "cancelled"}
