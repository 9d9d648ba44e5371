"""A process looks after its database, and tells of it what is so."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from support.waiting import until

from corral.api.vitals import Vitals
from corral.clock import SystemClock
from corral.cloud.breaker import BreakerState
from corral.cloud.guarded import Reachability
from corral.jobs.tables import install
from corral.process import Watch
from corral.store import premises
from corral.store.database import Database
from corral.store.embedded import EmbeddedServer
from corral.store.migrate import migrate
from corral.telemetry import Metrics


@dataclass(slots=True, kw_only=True)
class Diary(Vitals):
    """Remembers what was told of the database, in order."""

    told: list[bool] = field(default_factory=list)

    def report(self, service: str, *, up: bool, **notes: object) -> None:
        if service == "database":
            self.told.append(up)
        Vitals.report(self, service, up=up, **notes)


def reachable() -> Reachability:
    return Reachability(
        breaker=BreakerState.CLOSED,
        calls_per_minute=300,
        last_answer_at=None,
        last_failure_at=None,
        last_failure=None,
    )


async def test_a_dead_database_is_told_of_before_it_is_started_again(short_dir: Path) -> None:
    """That takes seconds, in which every request fails and `/health` must not say that all is well."""
    clock, data_dir = SystemClock(), short_dir / "watched"
    server = EmbeddedServer(data_dir, clock, options=[("fsync", "off")])
    target = await server.ensure()
    await migrate(target, first=install)
    database = await Database.connect(target, most_connections=2)
    vitals = Diary(started_at=datetime(2030, 1, 1, tzinfo=UTC))
    watch = Watch(
        database=database,
        embedded=server,
        simulated=None,
        reachability=reachable,
        vitals=vitals,
        metrics=Metrics(),
        clock=clock,
    )
    try:
        await watch.look()
        os.kill(int((premises.locate(data_dir) / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
        await until(server.needs_attention)
        await watch.look()
    finally:
        await database.close()
        await server.stop()

    assert vitals.told == [True, False, True]
