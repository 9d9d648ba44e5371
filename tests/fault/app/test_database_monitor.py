"""A process monitors its database, and reports its state."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from support.clock.waiting import until
from support.engines.audit_lines import LINE
from support.engines.runtime import idle_runtime

from corral.api.http.process_health import ProcessHealth
from corral.app.process import DependencyMonitor
from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.domain.timing import iso
from corral.jobs.pause import Pause
from corral.jobs.pgqueuer_adapter import install
from corral.jobs.queue import JobQueue
from corral.jobs.registry import Registry
from corral.store.server import cluster_location
from corral.store.server.embedded import EmbeddedServer
from corral.store.server.migrate import migrate
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database


@dataclass(slots=True, kw_only=True)
class Diary(ProcessHealth):
    """Remembers the reported states of the database, in order."""

    reported: list[bool] = field(default_factory=list)

    def report(self, service: str, *, up: bool, **notes: object) -> None:
        if service == "database":
            self.reported.append(up)
        ProcessHealth.report(self, service, up=up, **notes)


NO_PROVIDER = cast("Any", None)
"""The monitor asks the runtime's `reachability`, never the provider itself."""


async def test_a_dead_database_is_reported_before_it_is_restarted(short_dir: Path) -> None:
    """That takes seconds, in which every request fails and `/health` must not say that all is well."""
    clock, data_dir = SystemClock(), short_dir / "watched"
    server = EmbeddedServer(data_dir, clock, options=[("fsync", "off")])
    target = await server.ensure()
    await migrate(target, first=install)
    database = await Database.connect(target, most_connections=2)
    service_health = Diary(started_at=datetime(2030, 1, 1, tzinfo=UTC))
    watch = DependencyMonitor(
        runtime=idle_runtime(database, NO_PROVIDER, clock),
        embedded=server,
        service_health=service_health,
    )
    try:
        await watch.check()
        os.kill(int((cluster_location.locate(data_dir) / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
        await until(server.needs_attention)
        await watch.check()
    finally:
        await database.close()
        await server.stop()

    assert service_health.reported == [True, False, True]


async def test_health_says_when_nothing_is_observed_or_no_worker_is_alive(database: Database) -> None:
    """Of the whole service, by the database's clock: also a process that only serves requests says so."""
    clock = SystemClock()
    service_health = ProcessHealth(started_at=clock.now())
    watch = DependencyMonitor(
        runtime=idle_runtime(database, NO_PROVIDER, clock),
        embedded=None,
        service_health=service_health,
    )

    async def healthy_after(statement: str) -> bool:
        async with database.connection() as connection:
            await connection.execute(statement)
        await watch.check()
        return service_health.healthy

    assert not await healthy_after(
        "INSERT INTO corral_processes (id, role, place) VALUES (gen_random_uuid(), 'api', '')"
    )
    assert service_health.up["workers"] is False
    assert await healthy_after("UPDATE corral_processes SET role = 'worker'")
    assert not await healthy_after("UPDATE corral_processes SET seen_at = now() - interval '20 s'")
    assert await healthy_after("UPDATE corral_processes SET seen_at = now()")
    assert await healthy_after("UPDATE corral_last_look SET at = now(), noted_at = now() - interval '85 s'")
    assert not await healthy_after("UPDATE corral_last_look SET noted_at = now() - interval '95 s'")
    assert service_health.up["observation"] is False
    assert await healthy_after("UPDATE corral_last_look SET every = interval '60 s'")
    assert not await healthy_after("INSERT INTO corral_secrets VALUES ('inst_1', 'f00d', '')")
    assert "1 creates wait with secrets of key f00d" in str(service_health.notes["secretKey"]["problem"])
    assert await healthy_after("DELETE FROM corral_secrets")


async def test_a_database_that_answers_only_the_probe_is_not_healthy(
    database: Database, target: DatabaseTarget
) -> None:
    """Else `/health` would repeat for ever what was last read about workers and observations."""
    clock = SystemClock()
    hurried = await Database.connect(target, most_connections=2, statement_seconds=0.1)
    service_health = ProcessHealth(started_at=clock.now())
    watch = DependencyMonitor(
        runtime=idle_runtime(hurried, NO_PROVIDER, clock),
        embedded=None,
        service_health=service_health,
    )
    await watch.check()
    before = service_health.up["database"]
    async with database.transaction() as other:
        await other.execute("LOCK TABLE corral_processes")
        await watch.check()
        meanwhile, problem = service_health.up["database"], service_health.notes["database"].get("problem")
    await watch.check()
    await hurried.close()

    assert (before, meanwhile, service_health.up["database"]) == (True, False, True)
    assert problem == "the database did not answer in time"


async def test_a_database_that_lacks_a_row_of_its_own_is_not_healthy(database: Database) -> None:
    """Nothing is observed then, and the last report must not stay."""
    clock = SystemClock()
    service_health = ProcessHealth(started_at=clock.now())
    watch = DependencyMonitor(
        runtime=idle_runtime(database, NO_PROVIDER, clock), embedded=None, service_health=service_health
    )
    await watch.check()
    before = service_health.up["database"]
    async with database.connection() as connection:
        await connection.execute("DELETE FROM corral_last_look")
    with pytest.raises(TypeError):
        await watch.check()

    assert (before, service_health.up["database"]) == (True, False)
    assert "its state cannot be read" in str(service_health.notes["database"]["problem"])


async def test_a_pause_of_another_process_is_read_and_shown(database: Database) -> None:
    """In health, which stays 200 because an admin asked for it; and in the metrics."""
    clock, pause, metrics = SystemClock(), Pause(), Metrics()
    service_health = ProcessHealth(started_at=clock.now())
    watch = DependencyMonitor(
        runtime=idle_runtime(database, NO_PROVIDER, clock, metrics=metrics),
        embedded=None,
        service_health=service_health,
        pause=pause,
    )
    queue = JobQueue(database, Registry())

    paused = await queue.pause(LINE)
    await watch.check()
    assert pause.is_on
    assert service_health.up["jobQueue"]
    assert service_health.notes["jobQueue"] == {"paused": True, "pausedAt": iso(paused.at)}
    assert metrics.registry.get_sample_value("corral_jobs_paused") == 1

    await queue.resume(LINE)
    await watch.check()
    assert not pause.is_on
    assert service_health.notes["jobQueue"] == {"paused": False, "pausedAt": None}
