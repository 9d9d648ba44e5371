"""
A private PostgreSQL, started and stopped with the service.

It listens on a Unix socket in a directory of mode 700 and on no network port, admits only the service's own account and
root, and starts without the service's environment, which may hold keys. One process owns it, by holding a file
lock for as long as it lives; others on the same data directory use the same server, and one of them takes over when the
owner ends. The server ends with its owner even after SIGKILL (on Linux; elsewhere the next owner finds the remaining
server by its pid file and stops it).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from corral.base.clock import Clock
from corral.base.file_lock import FileLock
from corral.base.log import log
from corral.domain.errors import StoreUnavailableError
from corral.store.server import cluster_files, pid_file
from corral.store.server.cluster_location import ClusterLocation, choose_location, locate
from corral.store.server.target import DatabaseTarget

START_WITHIN_SECONDS: Final = 60.0
"""Crash recovery after SIGKILL under load takes seconds; a server silent for this long will not start."""
STOP_WITHIN_SECONDS: Final = 10.0

_POLL_SECONDS: Final = 0.02
_RESTART_PAUSE_SECONDS: Final = 0.2
_SESSIONS_REMAIN: Final = b"pre-existing shared memory block"
"""What a new server logs, and ends, while sessions of one that was killed are still ending; it is started again."""
_SERVER_OPTIONS: Final = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    # Short statements only: compiling them costs more than it saves.
    "jit": "off",
}


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
        """What differs in a copy of the cluster: the inode of a file that PostgreSQL only overwrites in place."""
        return f"inode {(locate(self._data_dir) / 'global' / 'pg_control').stat().st_ino}"

    def running(self) -> DatabaseTarget | None:
        """The address of a server that runs for this data directory, started by any process."""
        cluster = locate(self._data_dir)
        return _target(cluster) if pid_file.is_accepting(cluster) else None

    async def ensure(self) -> DatabaseTarget:
        """
        Return a running server's address: ours if it runs, another process's if that owns it, else one started now.

        Raises StoreUnavailableError, quoting the end of the server's log, when it does not start.
        """
        deadline = self._clock.monotonic() + START_WITHIN_SECONDS
        while self._clock.monotonic() < deadline:
            if self._owns():
                return await self._start(choose_location(self._data_dir), deadline)
            cluster = locate(self._data_dir)
            if pid_file.is_accepting(cluster):
                return _target(cluster)
            await self._clock.sleep(_POLL_SECONDS)
        raise StoreUnavailableError(
            f"the PostgreSQL of {self._data_dir} belongs to another process and is not answering"
        )

    def needs_attention(self) -> bool:
        """Whether `ensure` would have something to do: our server died, or its owner left."""
        self._reap()
        return not pid_file.is_accepting(locate(self._data_dir))

    async def stop(self) -> None:
        """Stop the server if it is ours; leave it to its owner otherwise."""
        if not self._ownership.held:
            return
        await self._stop_server(locate(self._data_dir))
        cluster_files.remove_socket_directory(self._data_dir)
        self._ownership.release()
        self._child = None

    async def _end(self, pid: int, by: signal.Signals) -> bool:
        """Send the signal and wait; returns whether the server has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, by)
        deadline = self._clock.monotonic() + STOP_WITHIN_SECONDS
        while self._clock.monotonic() < deadline:
            self._reap()
            if not pid_file.is_running(pid):
                return True
            await self._clock.sleep(_POLL_SECONDS)
        return False

    def _reap(self) -> None:
        """Collect the status of our child; until then a dead child looks alive."""
        if self._child is not None:
            self._child.poll()

    def _owns(self) -> bool:
        if not self._data_dir.exists():
            choose_location(self._data_dir)
        return self._ownership.claim()

    async def _start(self, location: ClusterLocation, deadline: float) -> DatabaseTarget:
        if not location.cluster.exists():
            await asyncio.to_thread(cluster_files.initialise, location, self.log_path)
        if self._child is not None and self._child.poll() is None and pid_file.is_accepting(location.cluster):
            return _target(location.cluster)
        # A server on this cluster that is not our child has lost its owner. It may be ending already, and would not end
        # with this process: it is stopped and replaced.
        await self._stop_server(location.cluster)
        is_blocked = True
        while is_blocked and self._clock.monotonic() < deadline:
            seen = self.log_path.stat().st_size if self.log_path.exists() else 0
            self._child = self._spawn(location)
            while self._clock.monotonic() < deadline and self._child.poll() is None:
                if pid_file.is_accepting(location.cluster):
                    return _target(location.cluster)
                await self._clock.sleep(_POLL_SECONDS)
            is_blocked = _SESSIONS_REMAIN in cluster_files.log_since(self.log_path, seen)
            await self._clock.sleep(_RESTART_PAUSE_SECONDS if is_blocked else 0)
        end = cluster_files.log_end(self.log_path)
        raise StoreUnavailableError(f"PostgreSQL did not start; the end of {self.log_path}:\n{end}")

    async def _stop_server(self, cluster: Path) -> None:
        pid = pid_file.server_pid(cluster)
        if pid is None and self._child is not None and self._child.poll() is None:
            pid = self._child.pid  # it has removed its pid file, and is about to end
        if pid is not None and not await self._end(pid, signal.SIGINT):
            await self._end(pid, signal.SIGQUIT)  # at once; the next start recovers from the log

    def _spawn(self, location: ClusterLocation) -> subprocess.Popen[bytes]:
        pid_file.remove(location.cluster)
        sockets = cluster_files.socket_directory(self._data_dir, location)
        options = (self._options | cluster_files.access_options(location)).items()
        arguments = ["-D", str(location.cluster), "-k", str(sockets), *(f"-c{name}={value}" for name, value in options)]
        log.info("database.starting", cluster=str(location.cluster))
        with cluster_files.open_log(self.log_path) as output:
            return subprocess.Popen(  # noqa: S603  # our own program and arguments
                cluster_files.command(location, "postgres", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=cluster_files.ENVIRONMENT,
                # A Ctrl-C in the terminal must reach this process alone: running jobs still need the database.
                start_new_session=True,
            )


def _target(cluster: Path) -> DatabaseTarget:
    return DatabaseTarget(host=pid_file.socket_directory(cluster), user=cluster_files.SUPERUSER, database="postgres")
