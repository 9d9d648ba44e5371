"""A process that dies, freezes or is cut off without a word, and the others that go on without it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from support.clock.waiting import until
from support.database.cutting import cable
from support.processes.patience import SHORT

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.domain.errors import StoreUnavailableError
from corral.domain.instance import InstanceId
from corral.jobs.pgqueuer_adapter import release
from corral.jobs.queue import JobQueue, JobStatus, NewJob
from corral.jobs.registry import JobRun, JobType, Registry
from corral.jobs.worker import Worker
from corral.store.server.target import DatabaseTarget
from corral.store.session import instance_lock, presence
from corral.store.session.database import Database
from corral.store.session.leadership import Leadership
from corral.store.session.presence import Presence, PresenceTimeouts

MEMBER = Path(__file__).parents[2] / "support" / "processes" / "member_process.py"
INSTANCE = InstanceId("inst_held")


@asynccontextmanager
async def member(target: DatabaseTarget, *python: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Another process that leads, has a job and holds an instance's lock."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(python or (str(MEMBER),)),
        str(target.host),
        str(target.database),
        INSTANCE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(MEMBER.parents[2])},  # noqa: TID251  # the interpreter's own
    )
    try:
        await _prints(process, "leading")
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def _prints(process: asyncio.subprocess.Process, word: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while word not in (line := (await process.stdout.readline()).decode()):
            assert line, f"the process ended before it printed {word}"


@pytest.fixture
def registry() -> Registry:
    """One type of job, which is quickly done."""

    async def done(_run: JobRun) -> None:
        """Finish at once."""

    registry = Registry()
    registry.add(JobType(name="deed", handler=done))
    return registry


@pytest.fixture
async def queue(database: Database, registry: Registry) -> JobQueue:
    """A queue with one job in it."""
    queue = JobQueue(database, registry)
    async with database.transaction() as connection:
        await queue.add([NewJob(type="deed", payload={})]).run(connection)
    return queue


async def _is_free(database: Database) -> bool:
    """Whether the instance's lock is free."""
    async with database.connection() as connection:
        (taken,) = await instance_lock.acquire(connection, [INSTANCE])
        if taken is not None:
            await instance_lock.release(connection, [INSTANCE])
    return taken is not None


async def _is_pending(queue: JobQueue) -> bool:
    return (await queue.stats()).by_status[JobStatus.PENDING] == 1


async def test_a_frozen_process_loses_its_lead_its_jobs_and_its_locks(
    database: Database, target: DatabaseTarget, queue: JobQueue
) -> None:
    """SIGSTOP keeps every session open, so without a limit no other process would ever lead."""
    clock = SystemClock()
    presence = Presence(target, clock, role="worker", release=release, timeouts=SHORT)
    leadership = Leadership(target, clock, matter="test")
    async with member(target) as other:
        assert not await _is_free(database)
        other.send_signal(signal.SIGSTOP)
        async with presence.reporting(), asyncio.timeout(60), leadership.leading():
            assert await _is_pending(queue)
            await until(lambda: _is_free(database), what="the instance's lock being free")

            # Awake again, it finds out before it acts as a leader; and it is a process like any other.
            other.send_signal(signal.SIGCONT)
            await _prints(other, "replaced")
            await leadership.check()


async def test_a_process_cut_off_without_a_word_loses_its_lead_and_its_locks(
    database: Database, target: DatabaseTarget
) -> None:
    """A host that lost power sends no FIN: for the server its sessions go on."""
    clock = SystemClock()
    presence = Presence(target, clock, role="worker", release=release, timeouts=SHORT)
    ours = Leadership(target, clock, matter="test")
    is_taken_over = False
    async with cable(target) as line:
        cut_off = Presence(line.target, clock, role="worker", release=release, timeouts=SHORT)
        name = cut_off.application_name
        theirs = Leadership(line.target, clock, matter="test", application_name=name, check_seconds=0.5)
        pool = await Database.connect(line.target, most_connections=2, application_name=name)
        with pytest.raises(StoreUnavailableError):
            async with cut_off.reporting(), theirs.leading(), pool.transaction() as held:
                assert await instance_lock.acquire(held, [INSTANCE]) != [None]
                await held.execute("UPDATE corral_last_look SET at = now()")
                line.cut()

                async with presence.reporting(), asyncio.timeout(60), ours.leading():
                    await until(lambda: _is_free(database), what="the instance's lock being free")
                    async with database.connection() as connection:
                        # The row that the open transaction had locked.
                        await connection.execute("UPDATE corral_last_look SET at = NULL", timeout=30)
                    with pytest.raises(StoreUnavailableError):
                        await theirs.check()
                is_taken_over = True
                pool.pool.terminate()

    assert is_taken_over, "the error may only come from what was cut off, not from waiting for leadership"


@pytest.mark.parametrize("patience", [PresenceTimeouts()], ids=["as in production"])
async def test_jobs_of_a_killed_process_continue_within_five_seconds(
    database: Database, target: DatabaseTarget, registry: Registry, queue: JobQueue, patience: PresenceTimeouts
) -> None:
    """Its session ended with it, so there is no need to wait until its heartbeat is old."""
    async with member(target) as other:
        other.kill()
        await other.wait()
    async with Presence(target, SystemClock(), role="worker", release=release, timeouts=patience).reporting():
        worker = Worker(database, registry, queue, clock=SystemClock(), metrics=Metrics(), concurrency=1)
        working = asyncio.create_task(worker.run())

        async def has_ended() -> bool:
            return (await queue.stats()).by_status[JobStatus.COMPLETED] == 1

        await until(has_ended, within=5, what="the job of the killed process")
        await worker.stop()
        await working


async def test_a_process_that_only_lost_its_connection_keeps_its_jobs(
    database: Database, target: DatabaseTarget, queue: JobQueue
) -> None:
    """It reports again at once on a new one; its jobs still run."""
    first = Presence(target, SystemClock(), role="worker", release=release, timeouts=SHORT)
    second = Presence(target, SystemClock(), role="worker", release=release, timeouts=SHORT)
    async with first.reporting(), second.reporting(), database.connection() as connection:
        await connection.execute("UPDATE corral_pgqueuer SET status = 'picked', queue_manager_id = $1", first.id)
        for _ in range(3):
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1",
                first.application_name,
            )
            seen = await connection.fetchval("SELECT seen_at FROM corral_processes WHERE id = $1", second.id)
            later = "SELECT seen_at > $2::timestamptz + interval '2 s' FROM corral_processes WHERE id = $1"
            await until(lambda: connection.fetchval(later, second.id, seen))  # noqa: B023  # awaited in this turn

        assert (await queue.stats()).by_status[JobStatus.PROCESSING] == 1
        assert await presence.workers_alive(connection) == 2

    async with database.connection() as connection:
        assert await presence.workers_alive(connection) == 0


@pytest.mark.parametrize(("silent", "alive"), [(10, 1), (30, 0)])
async def test_a_worker_counts_as_alive_until_it_is_silent_for_too_long(
    database: Database, silent: int, alive: int
) -> None:
    """A slow report is no reason to call the service unhealthy; a frozen process has lost its lead after thirty."""
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO corral_processes (id, role, place, seen_at) VALUES ($1, 'worker', '', now() - $2::interval)",
            uuid4(),
            timedelta(seconds=silent),
        )

        assert await presence.workers_alive(connection) == alive


def test_a_frozen_process_is_replaced_within_thirty_seconds() -> None:
    """Another process must have watched for as long, and notices at its next report, which may itself be slow."""
    usual = PresenceTimeouts()

    assert usual.silent_after + usual.beat + timedelta(seconds=presence.STATEMENT_SECONDS) < timedelta(seconds=30)


async def test_every_session_asks_the_server_to_notice_a_dead_host(database: Database, target: DatabaseTarget) -> None:
    """By a statement, as PgBouncer refuses such startup parameters; on a Unix socket the values read as zero."""
    pool = await Database.connect(target, most_connections=1, application_name="corral keepalives")
    async with database.connection() as connection:
        first = await connection.fetchval(
            "SELECT query FROM pg_stat_activity WHERE application_name = 'corral keepalives'"
        )
    await pool.close()

    for setting in ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"):
        assert f"set_config('{setting}'" in str(first)
