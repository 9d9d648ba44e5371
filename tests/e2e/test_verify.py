"""`corral verify` as a person runs it: beside a service, on a terminal, killed and interrupted."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from support.clock.waiting import until
from support.processes.process import Running, quicken, run, serving
from support.processes.terminal import Terminal, on_terminal

from novitasim.testing import start_simulator


async def at_the_provider(data_dir: Path) -> list[dict[str, Any]]:
    """The trial machines that exist, whatever a list says."""
    address = (data_dir / "simulator" / "address").read_text().strip()
    async with aiohttp.ClientSession() as client, client.get(f"{address}/_sim/state") as response:
        state = await response.json()
    return [
        each
        for each in state["instances"]
        if each["name"].startswith("corral-verify-") and each["status"] not in {"removed", "toRemove", "removing"}
    ]


async def created(terminal: Terminal) -> None:
    """Answer the question, and wait until the machine is there."""
    await terminal.shows("Create one RTX 3090 24GB at $0.21/h for at most $0.0525, then delete it?")
    terminal.type("y\n")
    await terminal.shows("s after the create")


async def known_to(corral: Running) -> tuple[Any, Any, list[str]]:
    """What the service takes for its own, for orphans, and for machines of others."""
    own = (await corral.ask("GET", "/api/instances")).json
    orphans = (await corral.ask("GET", "/api/orphans")).json
    merged = (await corral.ask("GET", "/api/instances/comprehensive")).json
    return own["instances"], orphans["orphans"], [each["name"] for each in merged["instances"]]


async def test_a_trial_beside_a_service_is_deleted_however_it_ends(short_dir: Path) -> None:
    """SIGKILL and `--cleanup`, Ctrl-C twice, SIGTERM; the service sees a machine of others and leaves it alone."""
    data_dir = short_dir / "beside" / ".corral"
    environ = {"CORRAL_DATA_DIR": str(data_dir)}
    async with serving(data_dir, COMPREHENSIVE_CACHE_TTL="0", INSTANCE_POLL_INTERVAL="1") as corral:
        await quicken(data_dir)
        async with on_terminal("verify", "--spend", "0.10", environ=environ) as terminal:
            await created(terminal)
            (machine,) = await at_the_provider(data_dir)
            await until(lambda: _lists(corral, machine["name"]))
            own, orphans, _ = await known_to(corral)
            terminal.process.kill()
            await terminal.process.wait()
        left = await at_the_provider(data_dir)
        removed = await run("verify", "--cleanup", cwd=data_dir.parent, **environ)
        again = await run("verify", "--cleanup", "--json", cwd=data_dir.parent, **environ)

        assert (own, orphans) == ([], [])
        assert [each["id"] for each in left] == [machine["id"]], "the kill came too late"
        assert removed[:2] == (0, "machines that were left behind and are deleted: 1\n")
        assert msgspec.json.decode(again[1]) == {"deleted": 0, "otherMarks": []}
        assert await at_the_provider(data_dir) == []

        async with on_terminal("verify", "--spend", "0.10", environ=environ) as terminal:
            await created(terminal)
            terminal.process.send_signal(signal.SIGINT)
            await terminal.shows("please wait")
            terminal.process.send_signal(signal.SIGINT)
            assert await terminal.end() == 130
            assert "the machine is gone" in terminal.text
        assert await at_the_provider(data_dir) == []

        async with on_terminal("verify", "--spend", "0.10", "--yes", environ=environ) as terminal:
            await terminal.shows("s after the create")
            terminal.process.send_signal(signal.SIGTERM)
            assert await terminal.end() == 130
            assert "the machine is gone" in terminal.text
        assert await at_the_provider(data_dir) == []
        assert await known_to(corral) == ([], [], [])


async def _lists(corral: Running, name: str) -> bool:
    return name in (await known_to(corral))[2]


async def test_the_exit_code_says_whether_something_must_be_done(tmp_path: Path) -> None:
    """What Corral copes with is 0; what it does not cope with is 1, with what to change."""
    async with start_simulator(clock="real", keys=frozenset({"sk-right"})) as sim:
        environ = {"NOVITA_API_KEY": "sk-right", "NOVITA_API_BASE_URL": sim.base_url}
        await sim.create("worker-a")
        truthful = await run("verify", cwd=tmp_path, **environ)
        sim.set(not_found_status=404)
        handled = await run("verify", "--json", cwd=tmp_path, **environ)
        sim.set(clock_ahead_seconds=600)
        lying = await run("verify", cwd=tmp_path, **environ)
        refused = await run("verify", cwd=tmp_path, **environ | {"NOVITA_API_KEY": "sk-wrong"})
        unasked = await run("verify", "--spend", "0.10", cwd=tmp_path, **environ)
        dear = await run("verify", "--spend", "0.01", "--yes", cwd=tmp_path, **environ)

    assert (truthful[0], handled[0], lying[0], refused[0], unasked[0], dear[0]) == (0, 0, 1, 1, 2, 1)
    assert truthful[1].splitlines()[0].split() == ["CHECK", "RESULT", "SEEN"]
    assert " 0 differ, " in truthful[1].splitlines()[-1]
    report = msgspec.json.decode(handled[1])
    assert [each["check"] for each in report["findings"] if each["result"] == "differs"] == ["refusal.not_found_status"]
    assert report["needsAction"] is False
    assert re.search(r"clock.difference differs: our clock is (599|600) s behind the provider's", lying[1])
    assert "  to do:   change the clock of this machine (NTP)" in lying[1]
    assert "does not accept NOVITA_API_KEY" in refused[2]
    assert "add --yes" in unasked[2]
    assert "--spend allows $0.0100" in dear[2]
    shown = "".join(text for result in (truthful, handled, lying, refused, unasked, dear) for text in result[1:])
    assert "sk-right" not in shown
    assert "sk-wrong" not in shown
    assert "worker-a" not in shown


async def test_without_a_key_and_a_service_the_simulator_is_verified(tmp_path: Path) -> None:
    """It runs for as long as the command; nothing differs, and no database is made."""
    code, output, _ = await run("verify", "--json", cwd=tmp_path)
    report = msgspec.json.decode(output)

    assert (code, report["provider"], report["differs"]) == (0, "the simulator", 0)
    assert [each.name for each in (tmp_path / ".corral").iterdir()] == ["simulator"]
    assert not (tmp_path / ".corral" / "simulator" / "address").exists()


async def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for options in (["--mark", "abcdef"], ["--cleanup", "--spend", "0.1"], ["--cleanup", "--mark", "xyz"]):
        code, _, errors = await run("verify", *options, cwd=tmp_path)

        assert (code, "Traceback" in errors) == (2, False)
    assert list(tmp_path.iterdir()) == []
