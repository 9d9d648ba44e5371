"""Two services on one data directory share a simulator; when its owner is killed, the other one takes it over."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import pytest
from support.clock.waiting import until
from support.processes.process import Running, serving

from corral.base.clock import SystemClock
from corral.base.settings.configuration import load
from corral.cloud.simulated import API_PATH, SimulatedProvider, opened_provider
from corral.domain.errors import SettingsError


async def is_reached(service: Running) -> bool:
    answer = await service.ask("GET", "/api/products?name=RTX+4090+24GB&region=CN-HK-01")
    await service.ask("POST", "/api/cache/clear", json={})
    return answer.status == 200 and bool(answer.json)


async def test_the_simulator_returns_when_its_owner_was_killed(short_dir: Path) -> None:
    """The killed owner left its address behind; the second service waited for ever at an unserved port."""
    data_dir = short_dir / "shared"
    async with serving(data_dir) as owner, serving(data_dir) as second:
        assert await is_reached(second)
        before = (data_dir / "simulator" / "address").read_text()
        await owner.end(signal.SIGKILL)

        await until(lambda: is_reached(second), within=40, what="the simulator coming back")
        after = (data_dir / "simulator" / "address").read_text()
        assert second.process.returncode is None

    assert after == before, "addresses handed out stay true"


async def test_a_simulator_starts_only_when_the_one_of_a_killed_owner_has_ended(short_dir: Path) -> None:
    """It would find its port taken, and the account in use."""
    data_dir = short_dir / "killed"
    directory = data_dir / "simulator"
    directory.mkdir(parents=True)
    simulated = SimulatedProvider(data_dir, SystemClock())
    with socket.create_server(("127.0.0.1", 0)) as former:
        former.settimeout(30)
        address = f"http://127.0.0.1:{former.getsockname()[1]}"
        (directory / "address").write_text(address)
        (directory / "port").write_text(address.rpartition(":")[2])
        starting = asyncio.create_task(simulated.ensure())
        visit, _ = await asyncio.to_thread(former.accept)
        visit.close()
    try:
        assert await starting == address + API_PATH
    finally:
        await simulated.stop()


async def test_the_simulator_sees_nothing_of_our_environment(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no setting of the service, and a process listing may show its environment."""
    monkeypatch.setenv("WEBHOOK_SECRET", "a-secret-of-ours")
    simulated = SimulatedProvider(short_dir, SystemClock())
    try:
        await simulated.ensure()
        [process] = [found for found in Path("/proc").glob("[0-9]*") if _runs_for(found, short_dir)]
        environment = (process / "environ").read_bytes()
    finally:
        await simulated.stop()

    assert {line.split(b"=")[0] for line in environment.split(b"\0") if line} == {b"PATH", b"LC_ALL"}


async def test_a_data_directory_that_cannot_hold_the_simulator_is_refused(tmp_path: Path) -> None:
    """Also where DATABASE_URL is set, so that no database is kept there."""
    (tmp_path / "file").touch()
    settings = load({"CORRAL_DATA_DIR": str(tmp_path / "file" / "data")}).settings
    with pytest.raises(SettingsError, match="/data cannot be used: Not a directory"):
        async with opened_provider(settings, SystemClock()):
            pass


def _runs_for(process: Path, data_dir: Path) -> bool:
    try:
        command = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended meanwhile
        return False
    return b"novitasim" in command and any(part.startswith(bytes(data_dir)) for part in command)
