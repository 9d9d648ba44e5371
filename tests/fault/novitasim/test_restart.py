"""The command, its state file, and its end, as a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from novitasim.testing import PLAIN, start_simulator
from novitasim.world.journal import JournalError

KEY = {"Authorization": "Bearer any-key"}
V1 = "/gpu-instance/openapi/v1"


@contextmanager
def running(*options: str, **popen: Any) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A simulator process and its root URL."""
    command = [sys.executable, "-m", "novitasim", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **popen)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_an_answered_instance_survives_sigkill(tmp_path: Path) -> None:
    state = str(tmp_path / "deep" / "world.jsonl")
    with running("--state", state) as (process, url):
        async with ClientSession(url, headers=KEY) as session:
            made = [
                (await (await session.post(f"{V1}/gpu/instance/create", json=PLAIN | {"name": f"n{n}"})).json())["id"]
                for n in range(20)
            ]
            await session.post(f"{V1}/gpu/instance/delete", json={"instanceId": made[0]})
            await session.post("/_sim/settings", json={"page_base": 1})
            await session.post("/_sim/stock", json={"productId": "4090.16c62g", "clusterId": "us-ca-7", "gpus": 3})
        process.send_signal(signal.SIGKILL)
        process.wait()

    with running("--state", state) as (_, url):
        async with ClientSession(url, headers=KEY) as session:
            ledger = await (await session.get("/_sim/ledger")).json()
            settings = await (await session.get("/_sim/settings")).json()
            stock = await (await session.get("/_sim/stock")).json()
            again = (await (await session.post(f"{V1}/gpu/instance/create", json=PLAIN)).json())["id"]

    assert [bill["id"] for bill in ledger["instances"]] == made
    assert settings["page_base"]["value"] == 1
    assert {"productId": "4090.16c62g", "clusterId": "us-ca-7", "held": 0, "left": 3} in stock
    assert again not in made


async def test_endpoints_outlive_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "world.jsonl"
    async with start_simulator(state=state) as sim:
        instance_id = await sim.create()
        sim.advance(10)
        before = (await sim.ask("/gpu/instance", instanceId=instance_id))[1]

    async with start_simulator(state=state) as sim:
        after = (await sim.ask("/gpu/instance", instanceId=instance_id))[1]

    assert after == before


async def test_a_line_torn_by_a_kill_is_ignored_and_a_spoilt_one_is_not(tmp_path: Path) -> None:
    state = tmp_path / "world.jsonl"
    async with start_simulator(state=state) as sim:
        await sim.create("kept")
    whole = state.read_bytes()
    state.write_bytes(whole + b'{"at":1790812800.0,"seq":2,"kind":"inst')
    async with start_simulator(state=state) as sim:
        assert [instance.order.name for instance in sim.instances()] == ["kept"]

    state.write_bytes(b"nonsense\n" + whole)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "novitasim", "--state", str(state), stderr=asyncio.subprocess.PIPE
    )
    _, complaint = await process.communicate()

    assert process.returncode == 2
    assert b"world.jsonl, line 1" in complaint


async def test_two_simulators_cannot_share_a_file_and_a_successor_waits_a_little(tmp_path: Path) -> None:
    state = tmp_path / "world.jsonl"
    async with start_simulator(state=state):
        with pytest.raises(JournalError, match="in use by another simulator"):
            async with start_simulator(state=state):
                pytest.fail("both have it")

    with running("--state", str(state)) as (process, _):
        process.terminate()
        async with start_simulator(state=state) as sim:
            assert sim.instances() == []


async def test_a_stepped_clock_continues_from_its_last_instant(tmp_path: Path) -> None:
    state = tmp_path / "world.jsonl"
    async with start_simulator(state=state) as sim:
        await sim.create()
        stood = sim.advance(1000)

    async with start_simulator(state=state) as sim:
        assert sim.now() == stood
        assert sim.ledger().seconds == pytest.approx(998)


def test_sigterm_ends_it_promptly() -> None:
    with running() as (process, _):
        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=30) == 0


def test_its_url_is_written_to_a_file_descriptor() -> None:
    reads, writes = os.pipe()
    with running("--ready-fd", str(writes), pass_fds=(writes,)) as (_, url):
        os.close(writes)
        with os.fdopen(reads) as reported:
            assert reported.read() == f"{url}\n"


def test_it_ends_with_its_parent_when_asked() -> None:
    """Its stdin is a pipe without a writer."""
    with running("--exit-with-parent", stdin=subprocess.PIPE) as (process, _):
        assert process.stdin is not None
        process.stdin.close()

        assert process.wait(timeout=30) == 0


def test_it_ends_when_the_parent_is_killed(tmp_path: Path) -> None:
    """Nothing is piped here: only the parent's process id shows it."""
    ready = tmp_path / "ready"
    script = (
        "import subprocess, sys, time;"
        f"p = subprocess.Popen([sys.executable, '-m', 'novitasim', '--port', '0', '--exit-with-parent',"
        f" '--ready-file', {str(ready)!r}], stdin=subprocess.DEVNULL);"
        "p.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        line = parent.stdout.readline()
        parent.kill()

        assert line.startswith("novitasim listening on http://127.0.0.1:")
        assert ready.read_text() == f"{line.split()[-1]}\n"
        assert parent.stdout.read() == ""  # returns when the child, the last holder of the pipe, is gone


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--quirk", "page_base=7"), "page_base cannot be '7'; accepted: whole number 0 to 1"),
        (("--quirk", "nonsense=1"), "no setting is called 'nonsense'"),
        (("--boot-seconds", "soon"), "boot_seconds cannot be 'soon'"),
        (("--speed", "0"), "--speed cannot be 0"),
    ],
)
def test_a_bad_option_is_exit_code_2_and_one_sentence(options: tuple[str, ...], words: str) -> None:
    ended = subprocess.run([sys.executable, "-m", "novitasim", *options], capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert ended.stderr.startswith("novitasim: ")
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_sped_up_clock_runs_faster_and_can_jump() -> None:
    with running("--speed", "1000", "--boot-seconds", "30", "--pull-seconds", "30") as (_, url):
        async with ClientSession(url, headers=KEY) as session:
            await session.post(f"{V1}/gpu/instance/create", json=PLAIN)
            first = await (await session.get("/_sim/state")).json()
            jumped = await (await session.post("/_sim/advance", json={"seconds": 100_000})).json()
            bad = await session.post("/_sim/advance", json={"seconds": "far"})
            state = await (await session.get("/_sim/state")).json()

    assert jumped["now"] >= first["now"] + 100_000
    assert state["by_status"] == {"running": 1}
    assert (bad.status, json.loads(await bad.text())["error"]) == (
        400,
        "seconds cannot be 'far'; accepted: a number >= 0",
    )
