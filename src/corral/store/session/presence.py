"""
Which processes use this database, and which of them stopped.

A process keeps one session of its own. On it, it holds an advisory lock named by its id, and reports every second.

- A killed process: the server released its lock. Its jobs return to the queue after two seconds.
- A frozen process, or one on a host that lost power: the lock stays, but it does not report. After fifteen seconds
  another process ends all its sessions, and with them its locks on instances, its leadership and its open transactions.
  If it wakes up later, its sessions are closed: it cannot record what it decided before, and it does not lead any more.

All times are the database's. A process judges others only after it has itself reported on time for as long: after an
outage of the database every process is late.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg

from corral.base.clock import Clock, is_set_within
from corral.base.log import log
from corral.store.server.target import DatabaseTarget
from corral.store.session.connections import CONNECT_TIMEOUT_SECONDS, own_session
from corral.store.session.database import Connection

BEAT = timedelta(seconds=1)
"""How often a process reports. More often costs a write each time; more rarely delays everything below."""
GONE_AFTER = timedelta(seconds=2)
"""A process without its session is dead when it has not reported for this long. Shorter, and the jobs of a process that
only lost its connection run a second time; longer, and jobs wait after a crash (5 s are promised)."""
SILENT_AFTER = timedelta(seconds=15)
"""A process with its session that has not reported for this long is frozen or cut off. Shorter, and processes on a busy
machine lose their sessions; longer, and no process leads meanwhile (30 s are promised)."""
STATEMENT_SECONDS = 5.0
"""How long one report may take; one that hangs is on a dead connection."""
LEAVE_SECONDS = 1.0
"""How long the removal of this process's row may take; without it other processes notice the end later."""

_KEY = "hashtextextended('corral process ' || {id}::text, 0)"
_CLAIM = f"SELECT pg_try_advisory_lock({_KEY.format(id='$1::uuid')})"
# A report does not wait for the disk: a crash of PostgreSQL forgets at most the last report.
_PREPARE = "SELECT set_config('synchronous_commit', 'off', false)"
_BEAT = """
WITH before AS (
    SELECT seen_at FROM corral_processes WHERE id = $1
), beat AS (
    INSERT INTO corral_processes (id, role, place, seats) VALUES ($1, $2, $3, $5)
    ON CONFLICT (id) DO UPDATE SET seen_at = now()
)
SELECT now() - (SELECT seen_at FROM before) AS gap,
       EXISTS (SELECT FROM corral_processes WHERE id <> $1 AND seen_at < now() - $4::interval) AS others_are_late
"""
_LATE = f"""
SELECT id, place, now() - seen_at AS silent_for, pg_try_advisory_xact_lock({_KEY.format(id="id")}) AS has_no_session
FROM corral_processes WHERE id <> $1 AND seen_at < now() - $2::interval
FOR UPDATE SKIP LOCKED
"""  # noqa: S608  # constants
_END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
  AND application_name LIKE ANY($1)  -- PgBouncer may add the client's address
"""
_FORGET = "DELETE FROM corral_processes WHERE id = ANY($1)"

Release = Callable[[asyncpg.Connection, Sequence[UUID]], Awaitable[int]]
"""Puts the jobs of these processes back into the queue; returns how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceTimeouts:
    """The times above; tests use shorter ones."""

    beat: timedelta = BEAT
    gone_after: timedelta = GONE_AFTER
    silent_after: timedelta = SILENT_AFTER


@dataclass(kw_only=True)
class Presence:
    """This process, as the others on the database see it."""

    target: DatabaseTarget = field(kw_only=False)
    clock: Clock = field(kw_only=False)
    role: str
    release: Release
    places: int = 0
    id: UUID = field(default_factory=uuid4)
    timeouts: PresenceTimeouts = field(default_factory=PresenceTimeouts)

    def __post_init__(self) -> None:
        """Begin without a report."""
        self._place = f"{socket.gethostname()}:{os.getpid()}"
        self._is_known = asyncio.Event()

    @property
    def application_name(self) -> str:
        """The name of every session of this process, by which others can end them."""
        return session_name(self.id)

    @asynccontextmanager
    async def reporting(self) -> AsyncGenerator[None]:
        """Report for as long as this is open; begins when the first report was made, or cannot be made soon."""
        reporting = asyncio.create_task(self._report_for_ever())
        try:
            await is_set_within(self._is_known, CONNECT_TIMEOUT_SECONDS, self.clock)
            yield
        finally:
            reporting.cancel()
            await asyncio.wait({reporting})

    async def _report_for_ever(self) -> None:
        while True:
            try:
                async with self._session() as connection:
                    await self._report(connection)
            except Exception as error:  # noqa: BLE001  # the outermost frame: whatever it was, report again
                # Without backoff: other processes take one that reports late for dead.
                if self._is_known.is_set():
                    log.warning("process.unreported", reason=repr(error))
                self._is_known.clear()
            await self.clock.sleep(self.timeouts.beat.total_seconds() / 2)

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[asyncpg.Connection]:
        session = own_session(self.target, name=self.application_name, statement_seconds=STATEMENT_SECONDS)
        async with session as connection:
            try:
                await connection.execute(_PREPARE)
                yield connection
            except asyncio.CancelledError:
                await _leave(connection, self.id)
                raise

    async def _report(self, connection: asyncpg.Connection) -> None:
        steady = timedelta(0)
        is_claimed = False
        while True:
            # An earlier session of ours may still hold the lock, if the server has not noticed its end.
            is_claimed = is_claimed or bool(await connection.fetchval(_CLAIM, self.id))
            (beat,) = await connection.fetch(
                _BEAT, self.id, self.role, self._place, self.timeouts.gone_after, self.places
            )
            self._is_known.set()
            gap = beat["gap"]
            steady = steady + gap if gap is not None and gap < 3 * self.timeouts.beat else timedelta(0)
            if beat["others_are_late"] and steady >= self.timeouts.gone_after:
                await self._take_over(connection, steady)
            await self.clock.sleep(self.timeouts.beat.total_seconds())

    async def _take_over(self, connection: asyncpg.Connection, steady: timedelta) -> None:
        """End the sessions of processes that stopped, if this process has reported on time for long enough to judge."""
        silent_after = self.timeouts.silent_after
        async with connection.transaction():
            late = await connection.fetch(_LATE, self.id, self.timeouts.gone_after)
            lost = [
                row
                for row in late
                if row["has_no_session"] or (row["silent_for"] >= silent_after and steady >= silent_after)
            ]
            if not lost:
                return
            ids = [row["id"] for row in lost]
            await connection.execute(_END_SESSIONS, [f"{session_name(each)}%" for each in ids])
            released = await self.release(connection, ids)
            await connection.execute(_FORGET, ids)
        for row in lost:
            log.warning(
                "process.lost",
                place=row["place"],
                silent_seconds=round(row["silent_for"].total_seconds(), 1),
                had_session=not row["has_no_session"],
                jobs=released,
            )


async def workers_alive(connection: Connection, silent_after: timedelta = SILENT_AFTER) -> int:
    """How many processes that run jobs have reported recently."""
    alive: int = await connection.fetchval(
        "SELECT count(*) FROM corral_processes WHERE role <> 'api' AND seen_at > now() - $1::interval", silent_after
    )
    return alive


def session_name(process_id: UUID) -> str:
    """The name of the sessions of a process; PostgreSQL cuts names at 63 bytes."""
    return f"corral {process_id}"


async def _leave(connection: asyncpg.Connection, process_id: UUID) -> None:
    """Remove the row of this process, if the connection still works."""
    try:
        await connection.execute(_FORGET, [process_id], timeout=LEAVE_SECONDS)
    except Exception as error:  # noqa: BLE001  # it ends anyway, and others will notice
        log.debug("process.unreported", reason=repr(error))
