"""The private PostgreSQL: its location, its owner, what it survives."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from support.clock.waiting import until

from corral.base.clock import SystemClock
from corral.domain.errors import SettingsError, StoreUnavailableError
from corral.store.server import cluster_location
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.target import DatabaseTarget

OWNER = """
import asyncio, sys
from pathlib import Path
from corral.base.clock import SystemClock
from corral.store.server.embedded import EmbeddedServer
async def main():
    await EmbeddedServer(Path(sys.argv[1]), SystemClock()).ensure()
    print("running", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@asynccontextmanager
async def running(data_dir: Path) -> AsyncGenerator[DatabaseTarget]:
    server = EmbeddedServer(data_dir, SystemClock(), options=[("fsync", "off")])
    try:
        yield await server.ensure()
    finally:
        await server.stop()


async def ask(target: DatabaseTarget, question: str) -> object:
    connection = await asyncpg.connect(**target.arguments())
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


def server_pid(data_dir: Path) -> int | None:
    try:
        return int((cluster_location.locate(data_dir) / "postmaster.pid").read_text().splitlines()[0])
    except FileNotFoundError:
        return None


async def test_what_was_stored_is_there_after_a_restart(short_dir: Path) -> None:
    """Stopping the service keeps its memory."""
    async with running(short_dir / "kept") as target:
        await ask(target, "CREATE TABLE remembered AS SELECT 42 AS answer")
    assert server_pid(short_dir / "kept") is None

    async with running(short_dir / "kept") as target:
        assert await ask(target, "SELECT answer FROM remembered") == 42


async def test_a_server_that_has_no_pid_file_ends_before_another_starts(short_dir: Path) -> None:
    """A server that stops removes the file before it ends. Two must not run on one cluster, and no child is left."""
    data_dir = short_dir / "twice"
    server = EmbeddedServer(data_dir, SystemClock(), options=[("fsync", "off")])
    await server.ensure()
    first = server_pid(data_dir)
    assert first is not None
    (cluster_location.locate(data_dir) / "postmaster.pid").unlink()

    assert server.needs_attention()
    target = await server.ensure()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert await ask(target, "SELECT 42") == 42
    await server.stop()


async def test_no_other_account_can_connect(short_dir: Path) -> None:
    """No network port; a socket in a directory that is closed to others."""
    async with running(short_dir / "closed") as target:
        assert await ask(target, "SHOW listen_addresses") == ""
        assert target.host is not None
        assert stat.S_IMODE(Path(target.host).stat().st_mode) == 0o700


async def test_the_server_sees_nothing_of_our_environment(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process of its account can read the server's environment, and ours may hold the provider's key."""
    monkeypatch.setenv("NOVITA_API_KEY", "sk-live-123")
    async with running(short_dir / "environment") as target:
        await ask(target, "SELECT 1")
        environment = Path(f"/proc/{server_pid(short_dir / 'environment')}/environ").read_bytes()

    assert b"sk-live-123" not in environment
    assert {line.split(b"=")[0] for line in environment.split(b"\0") if line} == {b"PATH", b"LC_ALL"}


CONNECT = """
import socket, struct, sys
place = socket.socket(socket.AF_UNIX)
place.connect(sys.argv[1] + "/.s.PGSQL.5432")
words = b"user\\0corral\\0database\\0postgres\\0\\0"
place.sendall(struct.pack("!ii", 8 + len(words), 196608) + words)
print(place.recv(1).decode())
"""
"""Begins a session by hand and prints what the server says: R continues, E is an error."""


async def test_only_our_own_account_and_root_may_connect(short_dir: Path) -> None:
    """As root, the server's account owns the socket, and other programs may run under that account."""
    data_dir = short_dir / "accounts"
    async with running(data_dir) as target:
        methods = await ask(target, "SELECT array_agg(DISTINCT auth_method) FROM pg_hba_file_rules")
        seen = {}
        for uid in {os.geteuid(), cluster_location.locate(data_dir).stat().st_uid}:
            caller = await asyncio.create_subprocess_exec(
                *("/usr/bin/env", "python3", "-I", "-S", "-c", CONNECT, str(target.host)),
                stdout=asyncio.subprocess.PIPE,
                cwd="/",
                user=uid,
            )
            output, _ = await caller.communicate()
            seen[uid] = output.decode().strip()

    assert methods == ["peer"]
    assert seen.pop(os.geteuid()) == "R"
    assert set(seen.values()) <= {"E"}


async def test_a_cluster_of_an_earlier_release_is_closed_to_other_accounts_too(short_dir: Path) -> None:
    """Its own files, which trust every account, are neither read nor changed."""
    data_dir = short_dir / "earlier"
    async with running(data_dir) as target:
        await ask(target, "CREATE TABLE remembered AS SELECT 42 AS answer")
    own = cluster_location.locate(data_dir) / "pg_hba.conf"
    own.write_text("local all all trust\n")
    log = data_dir / "postgres.log"
    log.chmod(0o644)

    async with running(data_dir) as target:
        assert await ask(target, "SELECT answer FROM remembered") == 42
        assert await ask(target, "SELECT array_agg(DISTINCT auth_method) FROM pg_hba_file_rules") == ["peer"]
    assert own.read_text() == "local all all trust\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_a_path_with_spaces_and_one_too_long_for_a_socket_work(short_dir: Path) -> None:
    """People put checkouts in odd places; the kernel allows sockets only short paths."""
    odd = short_dir / "a b" / ("deep" * 40)
    odd.parent.mkdir(mode=0o711)
    async with running(odd) as target:
        assert await ask(target, "SELECT 1") == 1
        assert target.host is not None
        assert len(target.host) < 100
        short = Path(target.host)
    assert not short.exists()


async def test_nothing_that_was_there_changes_mode_or_owner(short_dir: Path) -> None:
    """The user's directories are the user's."""
    home = short_dir / "home"
    home.mkdir()
    home.chmod(0o751)
    before = {path: (path.stat().st_mode, path.stat().st_uid) for path in (home, *home.parents)}

    async with running(home / "project" / ".corral") as target:
        await ask(target, "SELECT 1")

    assert before == {path: (path.stat().st_mode, path.stat().st_uid) for path in before}


async def test_a_closed_home_is_no_obstacle(short_dir: Path) -> None:
    """Root's server runs as an account that cannot enter root's home: its files are elsewhere, and are found again."""
    home = short_dir / "closed-home"
    home.mkdir(mode=0o700)
    async with running(home / "data") as target:
        await ask(target, "CREATE TABLE remembered AS SELECT 42 AS answer")
    cluster = cluster_location.locate(home / "data")
    async with running(home / "data") as target:
        again = await ask(target, "SELECT answer FROM remembered")

    assert again == 42
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert cluster.is_relative_to(home) == (os.geteuid() != 0)
    if not cluster.is_relative_to(home):
        shutil.rmtree(cluster.parent)


async def test_two_processes_share_one_server_and_the_second_inherits_it(short_dir: Path) -> None:
    """The server ends with its owner; the remaining process starts it again."""
    first = EmbeddedServer(short_dir / "shared", SystemClock())
    second = EmbeddedServer(short_dir / "shared", SystemClock())
    address = await first.ensure()
    assert await second.ensure() == address
    await second.stop()
    assert await ask(address, "SELECT 1") == 1  # only its owner stops it

    assert await second.ensure() == address
    await first.stop()
    assert second.needs_attention()
    assert await ask(await second.ensure(), "SELECT 1") == 1
    await second.stop()
    assert server_pid(short_dir / "shared") is None


async def test_the_server_ends_with_a_killed_owner_and_starts_again(short_dir: Path) -> None:
    """SIGKILL leaves no stray server and no damage."""
    data_dir = short_dir / "killed"
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(data_dir), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    while b"running" not in await owner.stdout.readline():
        pass
    pid = server_pid(data_dir)
    owner.send_signal(signal.SIGKILL)
    await owner.wait()

    async with running(data_dir) as target:
        assert await ask(target, "SELECT 1") == 1
        assert server_pid(data_dir) != pid
    await owner.communicate()


async def test_a_stale_pid_file_with_another_processs_number_is_no_obstacle(short_dir: Path) -> None:
    """After a reboot the number in the file may belong to any program."""
    async with running(short_dir / "stale") as target:
        await ask(target, "SELECT 1")
    pid_file = cluster_location.locate(short_dir / "stale") / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{pid_file.parent}\n1\n5432\n{pid_file.parent}\n\n  1 1\nready   \n")

    async with running(short_dir / "stale") as target:
        assert await ask(target, "SELECT 1") == 1


async def test_a_server_that_cannot_start_shows_its_log(short_dir: Path) -> None:
    """The operator reads why, not that a time-out passed."""
    server = EmbeddedServer(short_dir / "broken", SystemClock(), options=[("shared_buffers", "nonsense")])

    with pytest.raises(StoreUnavailableError, match=r"(?s)did not start.*shared_buffers"):
        await server.ensure()
    await server.stop()


async def test_a_missing_postgresql_is_reported_with_the_next_step(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a platform without the wheel one sentence says what to do."""
    monkeypatch.setattr(cluster_location, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(short_dir))

    with pytest.raises(StoreUnavailableError, match=r"corral\[embedded\].*PATH.*DATABASE_URL"):
        await EmbeddedServer(short_dir / "none", SystemClock()).ensure()


async def test_a_server_that_dies_is_noticed(short_dir: Path) -> None:
    """Also before the child's exit was reaped."""
    data_dir = short_dir / "dies"
    server = EmbeddedServer(data_dir, SystemClock())
    await server.ensure()
    pid = server_pid(data_dir)
    assert pid is not None
    assert not server.needs_attention()

    os.kill(pid, signal.SIGKILL)
    await until(server.needs_attention)

    assert await ask(await server.ensure(), "SELECT 1") == 1
    await server.stop()


def test_root_does_not_replace_the_database_of_a_user(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It started an empty one elsewhere and left a note of it in the directory: the user's was never used again."""
    data_dir = short_dir / "users"
    (data_dir / "postgres").mkdir(parents=True)
    if os.getuid() == 0:
        os.chown(data_dir / "postgres", 4242, 4242)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(SettingsError, match="belongs to the account"):
        cluster_location.choose_location(data_dir)
    assert [path.name for path in data_dir.iterdir()] == ["postgres"]


async def test_a_killed_server_is_replaced_once_its_sessions_have_ended(short_dir: Path) -> None:
    """PostgreSQL refuses to start while a session of the killed server holds its shared memory, as on a busy host."""
    data_dir = short_dir / "sessions"
    server = EmbeddedServer(data_dir, SystemClock())
    target = await server.ensure()
    connection = await asyncpg.connect(**target.arguments())
    session, postmaster = await connection.fetchval("SELECT pg_backend_pid()"), server_pid(data_dir)
    assert postmaster is not None

    os.kill(session, signal.SIGSTOP)
    os.kill(postmaster, signal.SIGKILL)
    await until(server.needs_attention)
    starting = asyncio.create_task(server.ensure())
    try:
        await until(lambda: "pre-existing shared memory block" in server.log_path.read_text() or starting.done())
    finally:
        os.kill(session, signal.SIGCONT)

    assert await ask(await starting, "SELECT 1") == 1
    connection.terminate()
    await server.stop()
