"""The merged listing and a provider that does not answer: on the real clock, with the real guard around it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from pydantic import SecretStr
from support.clock.waiting import until
from support.engines.describer import a_describer
from support.provider.rate_limit_store import MemoryRateLimitStore

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.base.settings.settings import CacheSettings, ProviderSettings
from corral.cache.registry import CacheName, CacheRegistry
from corral.cloud.breaker import BreakerState
from corral.cloud.novita.account import GuardedCloud, opened_account
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.merge import Source
from corral.engine.events.publisher import EventPublisher
from corral.engine.observe.observations import Observations
from corral.engine.queries.merged_listing import LEAST_WAIT_SECONDS, ListingOptions, MergedListing
from corral.jobs.queue import JobQueue
from corral.jobs.registry import Registry
from corral.store.session.database import Database
from novitasim.testing import Simulated, start_simulator

QUICKLY_SECONDS = 0.6
"""What is not waited for; less than LEAST_WAIT_SECONDS, which a second wait would take."""
ALL = ListingOptions(include_novita_only=True, sync_local_state=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """The listing, and what is behind it."""

    listing: MergedListing
    cloud: GuardedCloud
    sim: Simulated
    clock: SystemClock
    caches: CacheRegistry

    async def read(self) -> tuple[Sequence[int], str | None, float]:
        """How many of each source, the warning, and how long it took."""
        began = self.clock.monotonic()
        answer = await self.listing.read(ALL)
        counts = [answer.sources[source] for source in Source]
        return counts, answer.warning, self.clock.monotonic() - began


@asynccontextmanager
async def calling(database: Database, *, ttl_seconds: int, retries: int = 3) -> AsyncGenerator[Roll]:
    clock = SystemClock()
    async with (
        start_simulator() as sim,
        opened_account(
            ProviderSettings.model_validate(
                {
                    "REQUEST_TIMEOUT": 30_000,
                    "NOVITA_RATE_LIMIT_PER_MINUTE": 100_000,
                    "MAX_RETRY_ATTEMPTS": retries,
                }
            ),
            base_url=sim.base_url,
            api_key=SecretStr("key"),
            store=MemoryRateLimitStore(clock),
            clock=clock,
            metrics=Metrics(),
            jitter=lambda: 0.5,
        ) as cloud,
    ):
        queue = JobQueue(database, Registry())
        sightings = Observations(
            database=database,
            queue=queue,
            event_publisher=EventPublisher(queue),
            clock=clock,
            policy=Policy(),
            installation="0a1b2c",
        )
        caches = CacheRegistry(CacheSettings.model_validate({"COMPREHENSIVE_CACHE_TTL": ttl_seconds}), clock)
        listing = MergedListing(
            cloud=cloud,
            database=database,
            caches=caches,
            sightings=sightings,
            clock=clock,
            describer=a_describer(database, clock),
        )
        await sim.create("foreign-instance")
        yield Roll(listing=listing, cloud=cloud, sim=sim, clock=clock, caches=caches)


async def test_a_provider_that_hangs_is_not_waited_for(database: Database) -> None:
    """What it listed a moment ago is shown, with a warning, before a person notices."""
    async with calling(database, ttl_seconds=0) as env:
        known, no_warning, _ = await env.read()
        env.sim.fault("hang", on="list", seconds=20, count=10)
        shown, warning, seconds = await env.read()
        _, _, again_seconds = await env.read()

        assert (known, no_warning) == ([0, 1, 0], None)
        assert shown == [0, 1, 0]
        assert warning is not None
        assert "did not answer in time; its part is as of" in warning
        assert seconds < LEAST_WAIT_SECONDS + QUICKLY_SECONDS
        assert again_seconds < QUICKLY_SECONDS, "later callers wait for the rest of the same time"


async def test_a_provider_that_is_slower_than_the_last_time_is_waited_for(database: Database) -> None:
    """A third of a second is no outage, however quickly it answered before."""
    async with calling(database, ttl_seconds=0) as env:
        await env.read()
        env.sim.fault("latency", on="list", seconds=0.3, count=10)
        shown, warning, _ = await env.read()

        assert (shown, warning) == ([0, 1, 0], None)


async def test_a_failed_listing_without_waiters_is_not_an_unhandled_error(database: Database) -> None:
    """The error was logged; asyncio must not report it as never retrieved."""
    surprises: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: surprises.append(str(context["message"])))
    async with calling(database, ttl_seconds=0, retries=1) as env:
        await env.read()
        env.sim.fault("error_500", on="list", count=10)
        _, warning, _ = await env.read()
        await until(lambda: not [task for task in asyncio.all_tasks() if "MergedListing._read" in repr(task)])
    del env
    gc.collect()

    assert warning is not None
    assert "did not answer in time" in warning
    assert surprises == []


async def test_a_provider_that_is_left_alone_is_not_asked(database: Database) -> None:
    """With the breaker open, our own records come at once."""
    async with calling(database, ttl_seconds=0) as env:
        env.sim.fault("error_500", count=100)

        async def is_open() -> bool:
            await env.listing.read(ALL)
            return env.cloud.snapshot().breaker is BreakerState.OPEN

        await until(is_open, what="the breaker opening")
        shown, warning, seconds = await env.read()

        assert shown == [0, 0, 0]
        assert warning is not None
        assert "only Corral's own records are shown" in warning
        assert seconds < QUICKLY_SECONDS


async def test_the_observers_listing_saves_a_call(database: Database) -> None:
    """In the process that leads, the merged listing costs the provider nothing."""
    async with calling(database, ttl_seconds=30) as env:
        began: datetime = env.clock.now()
        env.listing.heard(await env.cloud.instances(), began)
        before = env.sim.calls()["endpoints"]["list"]["total"]
        shown, warning, _ = await env.read()
        used = env.caches[CacheName.INSTANCE_STATES].stats()

        assert (shown, warning) == ([0, 1, 0], None)
        assert env.sim.calls()["endpoints"]["list"]["total"] == before
        assert (used.hits, used.misses, used.sets) == (1, 0, 1)


async def test_a_failed_direct_lookup_counts_as_a_miss(database: Database) -> None:
    """The statistics of `instanceStates` say how often the provider was asked for want of a recent look."""
    async with calling(database, ttl_seconds=0) as env:
        await env.read()
        await env.read()
        used = env.caches[CacheName.INSTANCE_STATES].stats()

        assert (used.hits, used.misses) == (0, 2)


async def test_an_older_listing_does_not_replace_a_newer_one(database: Database) -> None:
    """Two of them may overtake each other."""
    async with calling(database, ttl_seconds=30) as env:
        early = env.clock.now()
        old = await env.cloud.instances()
        await env.sim.create("another")
        env.listing.heard(await env.cloud.instances(), env.clock.now())
        env.listing.heard(old, early)
        shown, _, _ = await env.read()

        assert shown == [0, 2, 0]
