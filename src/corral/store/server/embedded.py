"""
A private PostgreSQL, started and stopped with the service.

It listens on a Unix socket in a directory of mode 700 and on no network port, admits only the service's own account and
root, and starts without the service's environment, which may hold keys. One process owns it, by holding a file
lock for as long as it lives; others on the same data directory use the same server, and one of them takes over when the
owner goes. The server ends with its owner even after SIGKILL (on Linux; elsewhere the next owner finds the leftover by
its pid file and stops it).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from corral.base.clock import Clock
from corral.base.file_lock import FileLock
from corral.base.telemetry import log
from corral.domain.errors import StoreUnavailableError
from corral.store.server import drop_privileges
from corral.store.server.cluster_location import ClusterLocation, locate, settle
from corral.store.server.target import DatabaseTarget

SUPERUSER = "corral"
START_WITHIN_SECONDS = 60.0
"""Crash recovery after SIGKILL under load takes seconds; a server silent for this long will not come."""
STOP_WITHIN_SECONDS = 10.0
SOCKET_PATH_LIMIT = 100
"""The kernel refuses socket paths over 107 bytes, of which PostgreSQL's file name takes some."""

_POLL_SECONDS = 0.02
_RESTART_PAUSE_SECONDS = 0.2
_SESSIONS_REMAIN = b"pre-existing shared memory block"
"""What a new server says, and ends, while sessions of one that was killed are still ending; it is started again."""
_LOG_LIMIT_BYTES = 10_000_000
_SERVER_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    # Short statements only: compiling them costs more than it saves.
    "jit": "off",
}
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
"""
All that PostgreSQL's processes get to see of ours.

Every process of their account can read it; the service's own environment may hold NOVITA_API_KEY.
"""


class EmbeddedServer:
    """The PostgreSQL of one data directory."""

    def __init__(self, data_dir: Path, clock: Clock, *, options: Sequence[tuple[str, str]] = ()) -> None:
        self._data_dir = data_dir.absolute()
        self._clock = clock
        self._options = {**_SERVER_OPTIONS, **dict(options)}
        self._ownership = FileLock(self._data_dir / "postgres.lock")
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        """Where the server writes its log."""
        return self._data_dir / "postgres.log"

    def place(self) -> str:
        """What tells this cluster from a copy of its files; PostgreSQL overwrites this one in place, for ever."""
        return f"inode {(locate(self._data_dir) / 'global' / 'pg_control').stat().st_ino}"

    def running(self) -> DatabaseTarget | None:
        """The address of a server that runs for this data directory, whoever started it."""
        cluster = locate(self._data_dir)
        return _target(cluster) if _is_accepting(cluster) else None

    async def ensure(self) -> DatabaseTarget:
        """
        Return a running server's address: ours if it runs, another process's if that owns it, else one started now.

        Raises StoreUnavailableError, quoting the end of the server's log, when it does not come up.
        """
        deadline = self._clock.monotonic() + START_WITHIN_SECONDS
        while self._clock.monotonic() < deadline:
            if self._owns():
                return await self._start(settle(self._data_dir), deadline)
            cluster = locate(self._data_dir)
            if _is_accepting(cluster):
                return _target(cluster)
            await self._clock.sleep(_POLL_SECONDS)
        raise StoreUnavailableError(
            f"the PostgreSQL of {self._data_dir} belongs to another process and is not answering"
        )

    def needs_attention(self) -> bool:
        """Whether `ensure` would have something to do: our server died, or its owner left."""
        self._reap()
        return not _is_accepting(locate(self._data_dir))

    async def stop(self) -> None:
        """Stop the server if it is ours; leave it to its owner otherwise."""
        if not self._ownership.held:
            return
        await self._stop_server(locate(self._data_dir))
        socket_dir = _remembered_socket_dir(self._data_dir)
        if socket_dir is not None:
            shutil.rmtree(socket_dir, ignore_errors=True)
            (self._data_dir / "socket-is-in").unlink(missing_ok=True)
        self._ownership.release()
        self._child = None

    async def _ended(self, pid: int, wish: signal.Signals) -> bool:
        """Send *wish* and wait; True when the server is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, wish)
        deadline = self._clock.monotonic() + STOP_WITHIN_SECONDS
        while self._clock.monotonic() < deadline:
            self._reap()
            if not _is_running(pid):
                return True
            await self._clock.sleep(_POLL_SECONDS)
        return False

    def _reap(self) -> None:
        """Take note of our child's death; until somebody does, a dead child looks alive."""
        if self._child is not None:
            self._child.poll()

    def _owns(self) -> bool:
        if not self._data_dir.exists():
            settle(self._data_dir)
        return self._ownership.claim()

    async def _start(self, location: ClusterLocation, deadline: float) -> DatabaseTarget:
        if not location.cluster.exists():
            await asyncio.to_thread(_initialise, location, self.log_path)
        if self._child is not None and self._child.poll() is None and _is_accepting(location.cluster):
            return _target(location.cluster)
        # Whatever serves this cluster and is not our child outlived its owner. It may be on its way out already, and
        # would not end with us: it is stopped, and ours takes its place.
        await self._stop_server(location.cluster)
        is_blocked = True
        while is_blocked and self._clock.monotonic() < deadline:
            seen = self.log_path.stat().st_size if self.log_path.exists() else 0
            self._child = self._spawn(location)
            while self._clock.monotonic() < deadline and self._child.poll() is None:
                if _is_accepting(location.cluster):
                    return _target(location.cluster)
                await self._clock.sleep(_POLL_SECONDS)
            is_blocked = _SESSIONS_REMAIN in _since(self.log_path, seen)
            await self._clock.sleep(_RESTART_PAUSE_SECONDS if is_blocked else 0)
        raise StoreUnavailableError(f"PostgreSQL did not start; the end of {self.log_path}:\n{_tail(self.log_path)}")

    async def _stop_server(self, cluster: Path) -> None:
        pid = _server_pid(cluster)
        if pid is not None and not await self._ended(pid, signal.SIGINT):
            await self._ended(pid, signal.SIGQUIT)  # at once; the next start recovers from the log

    def _spawn(self, location: ClusterLocation) -> subprocess.Popen[bytes]:
        if self.log_path.exists() and self.log_path.stat().st_size > _LOG_LIMIT_BYTES:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        # A pid file without a server is left over from a crash; its number may since belong to somebody else, and
        # PostgreSQL, which only asks whether the number is in use, would then refuse to start.
        (location.cluster / "postmaster.pid").unlink(missing_ok=True)
        socket_dir = _socket_dir(self._data_dir, location)
        options = [f"-c{name}={value}" for name, value in (self._options | _access_files(location)).items()]
        command = [str(location.binaries / "postgres"), "-D", str(location.cluster), "-k", str(socket_dir), *options]
        log.info("database.starting", cluster=str(location.cluster))
        with _private_log(self.log_path) as output:
            return subprocess.Popen(  # noqa: S603  # our own program and arguments
                [
                    *(sys.executable, "-I", "-S", drop_privileges.__file__),
                    *(str(location.uid), str(location.gid), str(os.getpid())),
                    *command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=_ENVIRONMENT,
                # A Ctrl-C in the terminal is for us alone: running jobs still need the database.
                start_new_session=True,
            )


def _initialise(location: ClusterLocation, log_path: Path) -> None:
    """Make the cluster beside its place and move it there whole, so that a half-made one is never used."""
    draft = location.cluster.with_name(f"{location.cluster.name}.draft-{secrets.token_hex(4)}")
    draft.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(draft, location.uid, location.gid)
    command = [str(location.binaries / "initdb"), "-D", str(draft), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8"]
    result = subprocess.run(  # noqa: S603  # our own program and arguments
        [
            *(sys.executable, "-I", "-S", drop_privileges.__file__),
            *(str(location.uid), str(location.gid), str(os.getpid())),
            *(*command, "--locale=C", "--no-instructions"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=_ENVIRONMENT,
    )
    if result.returncode != 0:
        shutil.rmtree(draft, ignore_errors=True)
        with _private_log(log_path) as output:
            output.write((result.stdout + result.stderr).encode())
        raise StoreUnavailableError(f"initdb failed: {(result.stderr or result.stdout).strip()[-500:]}")
    draft.rename(location.cluster)


def _access_files(location: ClusterLocation) -> dict[str, str]:
    """
    Write who may connect, beside the cluster, and return the options that make the server read it.

    Only the account that the service runs as, and root, may: for a service that runs as root, PostgreSQL's own account
    owns the socket, and other programs may run under that account. The files inside the cluster are neither read nor
    changed, so a cluster made by an earlier release works as it is.
    """
    hba, ident = (location.cluster.with_name(f"{location.cluster.name}-{name}.conf") for name in ("hba", "ident"))
    accounts = {"root", *_own_name()}
    method = f"peer map={SUPERUSER}" if _own_name() else "trust"
    _replace(hba, f"local all {SUPERUSER} {method}\nlocal replication {SUPERUSER} {method}\n")
    _replace(ident, "".join(f"{SUPERUSER} {_quoted(account)} {SUPERUSER}\n" for account in sorted(accounts)))
    return {"hba_file": str(hba), "ident_file": str(ident)}


def _own_name() -> list[str]:
    """The name of this process's account; an account without a name (in some containers) cannot be mapped."""
    try:
        return [pwd.getpwuid(os.geteuid()).pw_name]
    except KeyError:
        return []


def _quoted(account: str) -> str:
    doubled = account.replace('"', '""')
    return f'"{doubled}"'


def _replace(path: Path, text: str) -> None:
    """Write a file that PostgreSQL's account can read, in one step."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text)
    draft.chmod(0o644)
    draft.replace(path)


def _private_log(path: Path) -> BinaryIO:
    """The server's log, which may quote statements: for the service's account alone."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "ab")


def _socket_dir(data_dir: Path, location: ClusterLocation) -> Path:
    """The cluster itself, or, when its path is too long for a socket, a short private directory."""
    if len(os.fsencode(location.cluster)) + len("/.s.PGSQL.5432.lock") <= SOCKET_PATH_LIMIT:
        return location.cluster
    remembered = _remembered_socket_dir(data_dir)
    if remembered is not None and remembered.is_dir():
        return remembered
    short = Path(tempfile.mkdtemp(prefix="corral-"))  # mode 700
    if os.geteuid() == 0:
        os.chown(short, location.uid, location.gid)
    (data_dir / "socket-is-in").write_text(f"{short}\n")
    return short


def _remembered_socket_dir(data_dir: Path) -> Path | None:
    pointer = data_dir / "socket-is-in"
    return Path(pointer.read_text().strip()) if pointer.exists() else None


def _pid_file(cluster: Path) -> list[str]:
    """Lines of postmaster.pid: pid, data directory, start time, port, socket directory, address, memory key, status."""
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _server_pid(cluster: Path) -> int | None:
    """The pid of the server on *cluster*, if it runs; a recycled number that is no PostgreSQL does not count."""
    lines = _pid_file(cluster)
    if not lines or not lines[0].strip().lstrip("-").isdigit():
        return None
    pid = abs(int(lines[0]))
    return pid if _is_running(pid) and _is_postgres(pid) else None


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_postgres(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except OSError:
        return not Path("/proc/self").exists()  # without /proc we must take the pid file's word


def _is_accepting(cluster: Path) -> bool:
    """Whether the pid file says `ready` and the process lives."""
    lines = _pid_file(cluster)
    return len(lines) >= 8 and lines[7].strip() == "ready" and _server_pid(cluster) is not None  # noqa: PLR2004


def _target(cluster: Path) -> DatabaseTarget:
    return DatabaseTarget(host=_pid_file(cluster)[4].strip(), user=SUPERUSER, database="postgres")


def _since(path: Path, size: int) -> bytes:
    """What was written to the log at *path* since it had this *size*; all of it if it was replaced meanwhile."""
    with path.open("rb") as file:
        file.seek(size if size <= path.stat().st_size else 0)
        return file.read()


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-2000:].strip() if path.exists() else "(no log)"
