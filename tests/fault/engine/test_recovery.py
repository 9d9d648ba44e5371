"""The database is gone, in the middle of everything: what a backup and what the account alone give back."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import aiohttp
from support.clock.waiting import until
from support.processes.process import CORRAL, Running, clean_environment, quicken, run, serving

from corral.store.server.cluster_location import locate
from novitasim.testing import PLAIN

REQUEST = {"productName": "RTX 4090 24GB", "templateId": "107672"}


async def corral_command(data_dir: Path, *command: str) -> tuple[int, str, str]:
    """Run a command beside the service."""
    return await run(*command, cwd=data_dir.parent, CORRAL_DATA_DIR=str(data_dir))


async def create(corral: Running, name: str) -> str:
    answer = await corral.ask("POST", "/api/instances", json={**REQUEST, "name": name})
    assert answer.status == 201, answer
    return str(answer.json["instanceId"])


async def statuses(corral: Running) -> dict[str, str]:
    return {each["id"]: each["status"] for each in (await corral.ask("GET", "/api/instances")).json["instances"]}


async def wait_for(corral: Running, wanted: dict[str, str]) -> None:
    async def is_so() -> bool:
        return wanted.items() <= (await statuses(corral)).items()

    await until(is_so, what=f"{wanted}")


async def sim(data_dir: Path, path: str, body: object = None) -> Any:
    address = (data_dir / "simulator" / "address").read_text().strip()
    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer any"}) as client,
        client.request("GET" if body is None else "POST", address + path, json=body) as response,
    ):
        assert response.status == 200, await response.text()
        return await response.json()


async def machines(data_dir: Path) -> dict[str, str]:
    """The truth: every machine that exists, by name, and what it is."""
    state = await sim(data_dir, "/_sim/state")
    return {each["name"]: each["status"] for each in state["instances"] if each["status"] != "removed"}


async def lose_everything(corral: Running, data_dir: Path) -> None:
    """Kill the service and delete its database."""
    assert await corral.end(signal.SIGKILL) == -signal.SIGKILL
    # The database's processes end with their owner, in their own time.
    await until(lambda: _is_gone(data_dir), what="the database's end")
    shutil.rmtree(locate(data_dir))


async def _is_gone(data_dir: Path) -> bool:
    try:
        pid = int((locate(data_dir) / "postmaster.pid").read_text().split()[0])
    except FileNotFoundError:
        return True
    return not Path(f"/proc/{pid}").exists()


async def test_after_the_loss_of_the_database_every_machine_is_known_again(short_dir: Path) -> None:
    """Killed with machines in different phases, rebuilt from the account, and judged by the simulator's own books."""
    data_dir = short_dir / "disaster" / ".corral"
    async with serving(data_dir) as corral:
        await quicken(data_dir)
        ready, doomed, stopped, deleted = [await create(corral, f"m{n}") for n in range(4)]
        await wait_for(corral, dict.fromkeys((ready, doomed, stopped, deleted), "ready"))
        await corral.ask("POST", f"/api/instances/{stopped}/stop")
        await corral.ask("DELETE", f"/api/instances/{deleted}")
        await wait_for(corral, {stopped: "exited", deleted: "terminated"})
        await sim(data_dir, "/gpu-instance/openapi/v1/gpu/instance/create", {**PLAIN, "name": "not-ours"})
        await sim(data_dir, "/_sim/settings", {"boot_seconds": "20"})
        booting = await create(corral, "late")
        await wait_for(corral, {booting: "starting"})
        before = await machines(data_dir)
        refused, _, why = await corral_command(data_dir, "rebuild")
        await lose_everything(corral, data_dir)

    assert (refused, "Corral is running on this database" in why) == (1, True)
    code, output, errors = await corral_command(data_dir, "rebuild", "--json")
    assert code == 0, errors
    rebuilt = {each["instanceId"]: each["outcome"] for each in json.loads(output)["machines"]}
    assert rebuilt == dict.fromkeys((ready, doomed, stopped, booting), "rebuilt")
    assert json.loads(output)["unmarked"] == 1

    async with serving(data_dir) as corral:
        await quicken(data_dir)
        await wait_for(corral, {ready: "ready", doomed: "ready", stopped: "exited", booting: "ready"})
        assert set(await statuses(corral)) == {ready, doomed, stopped, booting}
        assert (await corral.ask("DELETE", f"/api/instances/{doomed}")).status == 202
        await wait_for(corral, {doomed: "terminated"})
        after, ledger = await machines(data_dir), await sim(data_dir, "/_sim/ledger")

    gone = next(name for name in before if doomed.replace("_", "-") in name)
    assert set(after) == set(before) - {gone}
    assert after["not-ours"] == "running"
    assert ledger["twice"] == {}
    assert len({name for name in after if name.startswith("corral-")}) == 3


async def test_a_backup_of_a_running_service_is_a_service_again(short_dir: Path) -> None:
    """Exported while machines boot, imported into an empty place: names, templates and events are all there."""
    data_dir = short_dir / "backup" / ".corral"
    file = data_dir.parent / "backup.jsonl"
    async with serving(data_dir) as corral:
        await quicken(data_dir)
        ready = await create(corral, "first")
        await wait_for(corral, {ready: "ready"})
        await sim(data_dir, "/_sim/settings", {"boot_seconds": "10"})
        booting = await create(corral, "second")
        await wait_for(corral, {booting: "starting"})
        code, _, errors = await corral_command(data_dir, "export", str(file))
        assert code == 0, errors
        shown = (await corral.ask("GET", f"/api/instances/{ready}")).json
        events = (await corral.ask("GET", f"/api/instances/{ready}/events")).json["events"]
        await lose_everything(corral, data_dir)
    code, _, errors = await corral_command(data_dir, "import", str(file))
    assert code == 0, errors

    async with serving(data_dir) as corral:
        await quicken(data_dir)
        await wait_for(corral, {ready: "ready", booting: "ready"})
        again = (await corral.ask("GET", f"/api/instances/{ready}")).json
        assert (await corral.ask("GET", f"/api/instances/{ready}/events")).json["events"][: len(events)] == events
        assert len(await machines(data_dir)) == 2
    assert file.stat().st_mode & 0o777 == 0o600
    unsteady = {"lastSeenAt", "stale", "healthCheck", "cost"}
    assert {k: v for k, v in again.items() if k not in unsteady} == {
        k: v for k, v in shown.items() if k not in unsteady
    }


async def test_a_broken_backup_is_refused_in_one_sentence(short_dir: Path) -> None:
    """With the number of the line, and an exit code of its own."""
    place = short_dir / "broken-backup"
    place.mkdir()
    (place / "backup.jsonl").write_text('{"corral":"export","format":1}\n')
    code, output, errors = await run("import", "backup.jsonl", cwd=place, CORRAL_DATA_DIR=str(place / ".corral"))

    assert (code, output) == (2, "")
    assert errors.startswith("corral: line 1: this is not a file that `corral export` wrote")
    assert errors.count("\n") == 1
    assert not (place / ".corral").exists()


async def test_a_full_disk_is_reported_as_such(short_dir: Path) -> None:
    """It is not the database's fault; and a place without a database is not made one by looking."""
    data_dir = short_dir / "full" / ".corral"
    data_dir.parent.mkdir()
    code, _, errors = await corral_command(data_dir, "export", "backup.jsonl")
    assert (code, errors) == (1, f"corral: there is nothing to export: no database is in {data_dir}\n")
    assert not data_dir.exists()
    (data_dir.parent / "backup.jsonl").write_text("yesterday's")
    (data_dir.parent / "backup.jsonl.part").symlink_to("/dev/full")
    await corral_command(data_dir, "migrate")
    code, _, _ = await corral_command(data_dir, "export", "backup.jsonl")
    assert code == 0, "what an earlier try left behind is replaced, not followed"
    full = await asyncio.create_subprocess_shell(
        f"{shlex.quote(str(CORRAL))} export > /dev/full",
        cwd=data_dir.parent,
        env=clean_environment(CORRAL_DATA_DIR=str(data_dir)),
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await full.communicate()

    assert full.returncode == 2
    assert said.decode().splitlines()[0] == "corral: cannot write standard output: No space left on device"
    assert sorted(path.name for path in data_dir.parent.iterdir()) == [".corral", "backup.jsonl"]


async def test_an_older_backup_takes_back_the_machines_made_since(short_dir: Path) -> None:
    """Exported while six requests were recorded and not created: the six machines stay, and none is made twice."""
    data_dir = short_dir / "older" / ".corral"
    file = data_dir.parent / "older.jsonl"
    async with serving(data_dir, "--role=api") as corral:  # nothing creates here
        requested = [await create(corral, f"w{n}") for n in range(6)]
        code, _, errors = await corral_command(data_dir, "export", str(file))
        assert code == 0, errors
    async with serving(data_dir) as corral:
        await quicken(data_dir)
        await wait_for(corral, dict.fromkeys(requested, "ready"))
        originals = await machines(data_dir)
        await lose_everything(corral, data_dir)
    code, _, errors = await corral_command(data_dir, "import", str(file))
    assert code == 0, errors

    async with serving(data_dir) as corral:
        await wait_for(corral, dict.fromkeys(requested, "ready"))
        another = await create(corral, "another")
        await wait_for(corral, {another: "ready"})
        after, ledger = await machines(data_dir), await sim(data_dir, "/_sim/ledger")
        orphans = (await corral.ask("GET", "/api/orphans")).json["orphans"]

    assert len(originals) == 6
    assert {name: after.get(name) for name in originals} == originals
    assert (len(after), ledger["twice"], orphans) == (7, {}, [])
