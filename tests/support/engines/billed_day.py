"""
A day of a fleet with whatever makes a bill hard to read, stepped, on the simulator's own bill.

The engine's clock and the simulator's show the same instant: the bill is by days.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from corral.domain.costs.reconciled_days import BILL_LAG
from corral.domain.instance import CreateRequest, InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.provider_names import ProviderName, provider_name
from corral.domain.operation import OperationKind
from corral.domain.placement.catalog import BillingMode
from corral.jobs.registry import JobId, JobRun
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from support.engines.engine_steps import REQUEST
from support.engines.stepped_engine import SteppedEngine, stepped_engine

HOUR: Final = 3600.0
LAG: Final = BILL_LAG.total_seconds()
RUN: Final = JobRun(id=JobId(1), type="reconcile_bills", payload={}, attempt=1)
ON_DEMAND: Final = replace(REQUEST, billing_mode=BillingMode.ON_DEMAND)
SPOT: Final = replace(REQUEST, billing_mode=BillingMode.SPOT)


@asynccontextmanager
async def day_engine(database: Database, target: DatabaseTarget, **quirks: Any) -> AsyncGenerator[SteppedEngine]:
    """An engine at midnight, and a simulator at the same instant."""
    async with stepped_engine(database, target, **quirks) as engine:
        engine.sim.advance(engine.clock.now().timestamp() - engine.sim.now())
        yield engine


async def to_hour(engine: SteppedEngine, hour: float) -> None:
    """Let the time pass until that hour of the day, with a listing every ten minutes."""
    left = hour * HOUR - engine.clock.monotonic()
    while left > 0:
        await engine.step(min(left, 600.0))
        left = hour * HOUR - engine.clock.monotonic()


async def ready(engine: SteppedEngine, order: CreateRequest = ON_DEMAND) -> tuple[InstanceId, str]:
    """A ready instance, and the provider's id of its machine."""
    instance_id = await engine.request_create(order)
    found = await engine.until(instance_id, Phase.READY)
    return instance_id, str(found.provider_id)


async def lost(engine: SteppedEngine, name: str, **fields: object) -> str:
    """A machine with a name of ours and without a record."""
    origin = ProviderName(installation=engine.installation, instance_id=InstanceId(f"inst_{name}"), attempt=1)
    return await engine.sim.create(provider_name(origin), **fields)


async def a_day_of_everything(engine: SteppedEngine) -> dict[str, str]:
    """
    A day with whatever makes a bill hard to read, until its bill is complete; the machines by what happens to them.

    A new price at 13:00, an orphan that listings show and one that they do not, a machine that fails and one that never
    runs, a spot machine that is reclaimed, a stopped one with a large disk, and one that the bill forgets.
    """
    sim, found = engine.sim, dict[str, str]()
    deleted, found["deleted"] = await ready(engine)
    _, found["price changed"] = await ready(engine, replace(ON_DEMAND, product_name="RTX 5090 32GB"))
    stopped, found["stopped"] = await ready(engine, replace(ON_DEMAND, rootfs_gb=160))
    _, found["reclaimed"] = await ready(engine, SPOT)
    failed = await engine.request_create(replace(ON_DEMAND, template_id="150033"))
    await engine.until(failed, Phase.FAILED, steps=400)
    found["failed"] = str((await engine.get(failed)).provider_id)
    broken = await engine.request_create(replace(ON_DEMAND, template_id="150034"))
    await engine.until(broken, Phase.FAILED, steps=400)
    _, found["not in the bill"] = await ready(engine)
    await to_hour(engine, 3)
    found["orphan"] = await lost(engine, "orphan")
    await engine.steps(3)
    await engine.parts.orphan_sweep.sweep(RUN)
    await engine.ask(OperationKind.STOP, stopped)
    await engine.until(stopped, Phase.EXITED)
    await to_hour(engine, 9)
    sim.fault("spot_reclaim", name=sim.world.instances[found["reclaimed"]].order.name)
    await engine.steps(4)
    await engine.request_delete(failed)
    await engine.until(failed, Phase.TERMINATED)
    await to_hour(engine, 13)
    for product in ("5090.16c96g", "5090.24c120g"):
        sim.set_price(product, 70_000, 30_000)
    await to_hour(engine, 18)
    await engine.request_delete(deleted)
    await engine.until(deleted, Phase.TERMINATED)
    sim.set(list_lag_seconds=86_400)  # no listing shows what is created from now on
    found["unlisted orphan"] = await lost(engine, "hidden")
    found["another team's"] = await sim.create("of-another-team", productId="H100-80GB.16c128g")
    await engine.step()
    await sim.ask("/gpu/instance/delete", {"instanceId": found["another team's"]})
    sim.set_billed(sim.world.instances[found["not in the bill"]].order.name, missing=True)
    await to_hour(engine, 24)
    await pass_time(engine, LAG)
    return found


async def pass_time(engine: SteppedEngine, seconds: float) -> None:
    """Let time pass at the provider, too, without a listing."""
    engine.clock.advance(seconds)
    engine.sim.advance(seconds)
