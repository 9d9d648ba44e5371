"""Ten thousand leases on a small rate limit: sampling keeps its share, and reads first what ends soon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast

import pytest
from pydantic import SecretStr
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.engines.known import FRESH
from support.engines.runtime import idle_runtime, settings_of
from support.provider.rate_limit_store import MemoryRateLimitStore

from corral.base.metrics import Metrics
from corral.cloud.novita.account import opened_account
from corral.cloud.port import Cloud
from corral.domain.instance import InstanceId, ProviderId
from corral.domain.leases.lease import EndCause, IdleRule, Lease, LeaseState, Notice
from corral.domain.lifecycle.phases import Phase
from corral.domain.machine.utilization import Period, Utilization
from corral.engine.build import build_engine
from corral.engine.engine import Engine
from corral.engine.leases.sampler import BEFORE_END, ROUND_SECONDS
from corral.store.session.database import Database
from corral.store.tables import instances
from novitasim.testing import Simulated, start_simulator

FLEET = 10_000
CALLS_A_MINUTE = 300
SHARE = 0.2
ALLOWED = int(CALLS_A_MINUTE * SHARE)
ENDING = 20
ENDS_AFTER = 130.0
# One row for each number, like the one that there is.
_COPIES = """
INSERT INTO corral_instances (id, name, goal, phase, region, provider_id, generation, create_in_doubt, created_at,
                              record, lease)
SELECT 'inst_n' || n, name, goal, phase, region, 'p-' || n, 0, false, created_at, record,
       CASE WHEN n <= $2 THEN lease ELSE lease - 'notice' END
FROM corral_instances, generate_series(1, $1) AS n
"""


@dataclass
class Sampling:
    """An engine with many leases at a provider with a small limit."""

    engine: Engine
    clock: SteppedClock
    sim: Simulated

    async def read_due(self) -> None:
        """Read what is due; time passes while the rate limiter lets it wait."""
        reading = asyncio.create_task(self.engine.sampler.read_due())
        while not reading.done():
            await until(lambda: reading.done() or self.clock.sleeping)
            self.clock.advance(0 if reading.done() else 0.5)
        await reading

    def calls(self) -> int:
        return int(self.sim.calls()["endpoints"].get("metrics", {}).get("total", 0))


def leased(now: datetime) -> LeaseState:
    notice = Notice(cause=EndCause.IDLE, reason="GPU 0 %", given_at=now, ends_at=now + timedelta(seconds=ENDS_AFTER))
    return LeaseState(lease=Lease(idle=IdleRule(after=timedelta(minutes=30))), notice=notice)


@pytest.fixture
async def sampling(database: Database) -> AsyncGenerator[Sampling]:
    clock = SteppedClock()
    settings = settings_of(NOVITA_RATE_LIMIT_PER_MINUTE=CALLS_A_MINUTE, CORRAL_METRICS_SHARE=SHARE)
    first = replace(FRESH, phase=Phase.READY, provider_id=ProviderId("p-0"), lease=leased(clock.now()))
    async with database.connection() as connection:
        await instances.add([first]).run(connection)
        await connection.execute(_COPIES, FLEET - 1, ENDING)
    async with (
        start_simulator() as sim,
        opened_account(
            settings.provider,
            base_url=sim.base_url,
            api_key=SecretStr("key"),
            store=MemoryRateLimitStore(clock),
            clock=clock,
            metrics=Metrics(),
            jitter=lambda: 0.5,
        ) as cloud,
    ):
        yield Sampling(
            build_engine(idle_runtime(database, cloud, clock, settings=settings, reachability=cloud.snapshot)),
            clock,
            sim,
        )


async def test_sampling_keeps_its_share_and_reads_first_what_ends_soon(sampling: Sampling) -> None:
    """A share that is used up ends the round; the longest unread are next, and an instance that ends soon is first."""
    calls = [(0.0, 0)]
    while sampling.clock.monotonic() < ENDS_AFTER:
        await sampling.read_due()
        calls.append((sampling.clock.monotonic(), sampling.calls()))
        sampling.clock.advance(ROUND_SECONDS)

    read_at = {each: progress.read_at for each, progress in sampling.engine.sampler._progress.items()}
    assert len(read_at) == FLEET
    assert (
        min(read_at[InstanceId(f"inst_n{n}")] for n in range(1, ENDING + 1)) >= ENDS_AFTER - BEFORE_END.total_seconds()
    ), "before they end"
    in_a_minute = [done - before for at, done in calls for since, before in calls if 0 <= at - since < 50]
    assert max(in_a_minute) <= ALLOWED
    assert calls[-1][1] > 1.5 * ALLOWED, "the share is used"
    assert (
        sampling.engine.runtime.metrics.registry.get_sample_value("corral_idle_reads_total", {"outcome": "ok"})
        == calls[-1][1]
    )


class SlowCloud:
    """Each measurement waits for the rate limit for some seconds."""

    def __init__(self, clock: SteppedClock) -> None:
        self.clock = clock
        self.reads = 0

    async def utilization(self, provider_id: str, within: Period) -> Utilization | None:
        assert provider_id
        assert within.end > within.begin
        await self.clock.sleep(4)
        self.reads += 1
        return None


async def test_rounds_make_up_for_what_slow_reads_missed(sampling: Sampling) -> None:
    """The first five reads, four at a time, take 8 s, for which the share has eight; so has each round after that."""
    cloud = SlowCloud(sampling.clock)
    sampler = replace(sampling.engine.sampler, cloud=cast("Cloud", cloud))
    running = asyncio.create_task(sampler.run())
    while sampling.clock.monotonic() < 60:
        await until(lambda: sampling.clock.sleeping)
        sampling.clock.advance(1)
    running.cancel()
    await asyncio.wait([running])

    assert cloud.reads >= 45
