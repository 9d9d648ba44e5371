"""Instances with a lease, and time that passes for them: listings, due reconciles and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from corral.domain.instance import Instance, InstanceId
from corral.domain.leases.lease import IdleRule, Lease
from corral.domain.lifecycle.phases import Phase
from support.engines.stepped_engine import SteppedEngine

QUIET = {"gpu": 0.0, "gpuMemory": 1.0, "cpu": 2.0, "memory": 10.0, "disk": 5.0}
"""The load of a machine that does nothing."""
BUSY = QUIET | {"gpu": 90.0}
MINUTE = timedelta(minutes=1)
GRACE = 5 * MINUTE
IDLE = Lease(idle=IdleRule(after=10 * MINUTE), grace=GRACE)


async def ready(engine: SteppedEngine, lease: Lease | None, load: dict[str, float] | None = None) -> Instance:
    """A new instance with *lease* that is ready, with *load* from the beginning."""
    instance_id = await engine.request_create(lease=lease)
    found = await engine.until(instance_id, Phase.READY)
    set_load(engine, load or QUIET)
    return found


def set_load(engine: SteppedEngine, load: Mapping[str, float]) -> None:
    """How busy every machine is from now on."""
    engine.sim.simulator.set_load("", {series: (value,) for series, value in load.items()})


async def live(engine: SteppedEngine, length: timedelta, *, step: timedelta = timedelta(seconds=30)) -> None:
    """Let *length* pass as in a running service whose process leads."""
    for _ in range(int(length / step)):
        await engine.step(step.total_seconds())
        await engine.parts.sampler.read_due()
        await engine.work()


async def live_until(
    engine: SteppedEngine,
    instance_id: InstanceId,
    phase: Phase,
    *,
    most: timedelta,
    step: timedelta = timedelta(seconds=20),
) -> datetime:
    """Let time pass until the instance is in *phase*; returns when it was, and fails after *most*."""
    end = engine.clock.now() + most
    while await engine.phase(instance_id) is not phase:
        assert engine.clock.now() < end, f"{instance_id} is {await engine.phase(instance_id)} after {most}"
        await live(engine, step, step=step)
    return engine.clock.now()


async def lease_events(engine: SteppedEngine) -> list[tuple[str, str]]:
    """What the log says about leases, and about stops, deletes and starts that follow from them."""
    async with engine.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT type, reason FROM corral_events WHERE type LIKE 'instance.ending%' OR type LIKE '%lease%'"
            " OR reason LIKE 'lease:%' ORDER BY id"
        )
    return [(row["type"].removeprefix("instance."), row["reason"]) for row in rows]


async def samples(engine: SteppedEngine) -> int:
    """How many measurements are stored."""
    async with engine.database.connection() as connection:
        found: int = await connection.fetchval("SELECT count(*) FROM corral_idle_samples")
    return found
