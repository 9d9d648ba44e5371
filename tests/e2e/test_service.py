"""The service as a person runs it."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import closing
from pathlib import Path

from support.clock.waiting import until
from support.processes.process import Running, run, serving

from corral.store.server.cluster_location import locate


async def test_it_serves_stops_when_asked_and_remembers(short_dir: Path) -> None:
    """Start, stop, start: the same data, exit code 0, nothing left running."""
    data_dir = short_dir / "remembers" / ".corral"
    async with serving(data_dir, cluster="none") as corral:
        assert (await corral.ask("GET", "/health/ready")).status == 200
        await until(lambda: _completed(corral))
        before = (await corral.ask("GET", "/api/jobs?status=completed")).json["jobs"][-1]
        assert await corral.end(signal.SIGTERM) == 0
    assert not (locate(data_dir) / "postmaster.pid").exists()

    async with serving(data_dir) as corral:
        assert (await corral.ask("GET", f"/api/jobs/{before['id']}")).json == before


async def test_it_comes_up_on_the_same_data_after_being_killed(short_dir: Path) -> None:
    """SIGKILL, then start: no repair by hand."""
    data_dir = short_dir / "killed-service" / ".corral"
    async with serving(data_dir) as corral:
        await until(lambda: _completed(corral))
        before = (await corral.ask("GET", "/api/jobs?status=completed")).json["jobs"][-1]
        assert await corral.end(signal.SIGKILL) == -signal.SIGKILL

    async with serving(data_dir) as corral:
        assert (await corral.ask("GET", f"/api/jobs/{before['id']}")).json == before


async def test_it_survives_the_death_of_its_database(short_dir: Path) -> None:
    """Requests get 503 meanwhile; the database is restarted and work continues, in the same process."""
    data_dir = short_dir / "reborn" / ".corral"
    async with serving(data_dir) as corral:
        os.kill(int((locate(data_dir) / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
        answer = await corral.ask("GET", "/api/jobs")
        assert answer.status in {200, 503}
        if answer.status == 503:
            assert answer.json["error"]["code"] == "DATABASE_UNAVAILABLE"
        await until(lambda: _answers(corral, "/api/jobs"), what="the database coming back")
        await until(corral.is_ready)
        assert corral.process.returncode is None


async def test_roles_share_one_database_and_the_last_one_keeps_it_up(short_dir: Path) -> None:
    """An API and a worker on one data directory; when the owner of the database leaves, the other takes over."""
    data_dir = short_dir / "roles" / ".corral"
    async with serving(data_dir, "--role", "api") as api, serving(data_dir, "--role", "worker") as worker:
        await until(lambda: _completed(api), what="the worker doing the API's jobs")
        assert (await worker.ask("GET", "/api/jobs")).status == 404
        assert (await worker.ask("GET", "/metrics")).status == 200
        await api.end()
        await until(worker.is_ready, what="the worker taking the database over")


async def test_two_services_run_side_by_side(short_dir: Path) -> None:
    """Different ports and data directories do not meet."""
    async with serving(short_dir / "one" / "data") as one, serving(short_dir / "two" / "data") as two:
        assert one.address != two.address
        assert (await one.ask("GET", "/health/ready")).status == 200
        assert (await two.ask("GET", "/health/ready")).status == 200


async def test_it_says_that_the_provider_is_simulated(short_dir: Path) -> None:
    """Simulated machines must not look real."""
    async with serving(short_dir / "simulated" / "data") as corral:
        health = (await corral.ask("GET", "/health")).json

    assert any("NOVITA_API_KEY is not set" in line for line in corral.lines)
    assert health["services"]["novitaApi"] == "up"
    assert health["dependencies"]["novitaApi"]["kind"] == "simulator"


async def test_every_bad_setting_is_named_before_exit_code_2(tmp_path: Path) -> None:
    """From the environment and from .env, in one go."""
    (tmp_path / ".env").write_text("MAX_CONCURRENT_JOBS=0\n")
    code, _, errors = await run("serve", cwd=tmp_path, PORT="x", CORRAL_COLOUR="red")

    assert code == 2
    assert "PORT='x': accepted is a whole number from 0 to 65535" in errors
    assert "MAX_CONCURRENT_JOBS='0': accepted is a whole number from 1 to 100" in errors
    assert "CORRAL_COLOUR: no such setting" in errors
    assert "Traceback" not in errors


async def test_a_port_in_use_is_reported_in_one_sentence(tmp_path: Path) -> None:
    """With what to do about it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        code, _, errors = await run("serve", "--port", str(port), cwd=tmp_path)

    assert code == 2
    assert errors == (
        f"corral: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with PORT or --port\n"
    )


async def test_config_prints_every_setting_and_no_secret(tmp_path: Path) -> None:
    """Value, origin and meaning of each."""
    (tmp_path / ".env").write_text("PORT=4000\n")
    code, output, _ = await run("config", cwd=tmp_path, NOVITA_API_KEY="sk-live-123", HOST="localhost")

    assert code == 0
    assert "sk-live-123" not in output
    lines = {line.split()[0]: line for line in output.splitlines() if line.strip()}
    assert "4000" in lines["PORT"]
    assert ".env" in lines["PORT"]
    assert "environment" in lines["HOST"]
    assert "default" in lines["REQUEST_TIMEOUT"]


async def test_migrate_says_what_it_did(short_dir: Path) -> None:
    """Once everything, then nothing."""
    cwd = short_dir / "migrated"
    cwd.mkdir()
    first = await run("migrate", cwd=cwd)
    second = await run("migrate", cwd=cwd)

    assert first[0] == 0
    assert "applied 0001 finished jobs" in first[1]
    assert (second[0], second[1]) == (0, "the database is up to date\n")


async def _completed(corral: Running) -> bool:
    stats = (await corral.ask("GET", "/api/jobs/stats")).json
    return bool(stats["completedJobs"])


async def _answers(corral: Running, path: str) -> bool:
    return (await corral.ask("GET", path)).status == 200
