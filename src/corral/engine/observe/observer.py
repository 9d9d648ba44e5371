"""
Looking at the world: one list call for all instances, by one leader, as often as something moves.

The listing is compared with what we remember; only what changed is written, in one statement, and only those instances
get a pass. Cost grows with pages of the listing, not with instances. One failed look changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from corral.base.clock import Clock
from corral.base.log import log
from corral.base.metrics import ListingEnd, Metrics
from corral.cloud.port import Cloud, Listing
from corral.domain.errors import CloudError, StoreUnavailableError
from corral.domain.lifecycle.decide import Policy
from corral.domain.lifecycle.tables import IN_MOTION
from corral.domain.observation.matching import Match
from corral.engine.observe.direct_lookups import DirectLookups
from corral.engine.observe.name_filter import NameFilter
from corral.engine.observe.name_lookups import NameLookups
from corral.engine.observe.observations import Observations, reconcile_job
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.observe.settle_timer import SettleTimer
from corral.engine.reconcile.outcome import provider_id
from corral.engine.reconcile.recorder import PublishChanges
from corral.jobs.queue import JobQueue
from corral.store.session.database import Database
from corral.store.session.leadership import Leadership
from corral.store.tables import instances, last_listing

TICK_SECONDS = 0.5
"""How often reminders are swept, and how soon a wish wakes the observer."""
SHARE_OF_BUDGET = 0.5
"""At most this share of the provider's budget goes into looking; the rest is for doing."""
REST = 2.0
LONGEST_REST_SECONDS = 8.0
"""
After a look there is none for twice as long as it took, up to so many seconds: reading and comparing thousands of
instances every two seconds would take more of a core than the passes that follow from it.
"""


def _ignore(_listing: Listing, _listing_began: datetime) -> None:
    """Nobody else wants to know."""


@dataclass(kw_only=True)
class Observer:
    """Keeps what we remember true to what the provider says."""

    cloud: Cloud
    database: Database
    queue: JobQueue
    publish: PublishChanges
    leadership: Leadership
    clock: Clock
    policy: Policy
    installation: str
    idle_interval: timedelta
    calls_per_minute: Callable[[], int]
    on_listing: Callable[[Listing, datetime], None] = _ignore
    """Who else wants to know what was listed, and when that reading began."""
    recent_lookups: RecentLookups
    """Where passes of this process find what was seen of single instances."""
    metrics: Metrics = field(default_factory=Metrics)
    _pages: int = field(default=1, init=False)
    _due: float = field(default=0.0, init=False)
    _not_before: float = field(default=0.0, init=False)
    """Whoever wakes it: a look has its share of the budget and of this process's time, and no more."""
    _listing_began: float | None = field(default=None, init=False)
    """When the look under way began."""
    _lookup_due: float = field(default=0.0, init=False)
    _trusted: bool = field(default=True, init=False)
    """Whether the last listing was complete and right."""
    _is_unsettled: bool = field(default=False, init=False)
    """Whether the last listing showed something that no phase says: an unknown status, or a machine that is missing."""
    _observations: Observations = field(init=False)
    _direct_lookups: DirectLookups = field(init=False)
    _settle_timer: SettleTimer = field(init=False)
    _name_lookups: NameLookups = field(init=False)

    def __post_init__(self) -> None:
        """Share what is known with the one who writes."""
        self._settle_timer = SettleTimer(self.clock, self.policy)
        self._observations = Observations(
            database=self.database,
            queue=self.queue,
            clock=self.clock,
            policy=self.policy,
            installation=self.installation,
            publish=self.publish,
        )
        self._direct_lookups = DirectLookups(
            cloud=self.cloud,
            database=self.database,
            observations=self._observations,
            clock=self.clock,
            policy=self.policy,
            recent_lookups=self.recent_lookups,
        )

        self._name_lookups = NameLookups(
            filter=NameFilter(cloud=self.cloud, database=self.database, installation=self.installation),
            database=self.database,
            observations=self._observations,
            clock=self.clock,
            settle_timer=self._settle_timer,
        )

    def wake(self) -> None:
        """Look soon: something is about to move."""
        soon = self.clock.monotonic() + self.policy.poll.total_seconds()
        self._due = max(min(self._due, soon), self._not_before)

    async def run(self) -> None:
        """Look for ever, whenever this process leads."""
        while True:
            try:
                async with self.leadership.leading():
                    log.info("observer.leading")
                    await self._lead()
            except StoreUnavailableError:
                log.warning("observer.interrupted")
                await self.clock.sleep(TICK_SECONDS)

    async def _lead(self) -> None:
        """Sweep at every tick and look when it is due, beside it: a look may take minutes when the budget is short."""
        self._due = self._lookup_due = self.clock.monotonic()
        listing_task: asyncio.Task[None] | None = None
        lookup_task: asyncio.Task[None] | None = None
        try:
            while True:
                await self.leadership.check()
                await self.sweep()
                listing_task, lookup_task = _unless_done(listing_task), _unless_done(lookup_task)
                if listing_task is None and self.clock.monotonic() >= self._due:
                    listing_task = asyncio.create_task(self._list_on_schedule())
                if lookup_task is None and self._is_lookup_due():
                    lookup_task = asyncio.create_task(self.look_up_changing())
                await self.clock.sleep(TICK_SECONDS)
        finally:
            left = [task for task in (listing_task, lookup_task) if task is not None]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    async def _list_on_schedule(self) -> None:
        """Look, and say when the next look is due."""
        self._listing_began = began = self.clock.monotonic()
        try:
            await self.list_account()
        finally:
            self._listing_began = None
        now = self.clock.monotonic()
        rest = min((now - began) * REST, LONGEST_REST_SECONDS)
        self._not_before = max(began + self._affordable_interval(), now + rest)
        self._due = max(began + await self._interval(), self._not_before)
        async with self.database.connection() as connection:
            await last_listing.announce(connection, timedelta(seconds=round(max(self._due - began, now - began))))

    def _is_lookup_due(self) -> bool:
        """Whether listings take so long, come so rarely or are so wrong that what moves should not wait for them."""
        now = self.clock.monotonic()
        lasting = 0.0 if self._listing_began is None else now - self._listing_began
        is_long = max(lasting, self._affordable_interval()) >= self.policy.slow_listing.total_seconds()
        return (is_long or not self._trusted) and now >= self._lookup_due

    async def look_up_changing(self) -> None:
        """Look at a few of those that move, by their ids, and for creates in doubt, by their names."""
        self._lookup_due = self.clock.monotonic() + self.policy.poll.total_seconds()
        await self._direct_lookups.run(pages=self._pages)
        await self._name_lookups.run()

    async def sweep(self) -> None:
        """Turn reminders that are due into passes."""
        async with self.database.transaction() as connection:
            due = await instances.due(connection, self.clock.now())
            if due:
                await self.queue.add([reconcile_job(each, phase) for each, phase in due]).run(connection)

    async def list_account(self) -> None:
        """List the whole account once and act on the difference; an unreachable provider changes nothing."""
        async with self.database.connection() as connection:
            begun = await last_listing.begin(connection)
        began, began_at = self.clock.now(), self.clock.monotonic()
        try:
            listing = await self.cloud.instances()
        except CloudError as error:
            log.warning("observer.look_failed", why=error.message)
            self.metrics.looks.labels(ListingEnd.FAILED).inc()
            return
        self.metrics.looks.labels(ListingEnd.COMPLETE if listing.complete else ListingEnd.PARTIAL).inc()
        self.metrics.look_seconds.observe((self.clock.now() - began).total_seconds())
        self._pages = max(1, listing.pages)
        self.on_listing(listing, began)
        if (
            self._listing_began is not None
        ):  # as the leader, who may have been frozen, and replaced, while the provider answered
            await self.leadership.check()
        settled = partial(self._settle_timer.settled, began=began_at)
        found = await self._observations.record(listing, began=began, settled=settled, begun=begun)
        if listing.complete and self._trusted and not found.trusted:
            log.warning("observer.listing_not_trusted", listed=len(listing.instances))
        self._is_unsettled, self._trusted = found.is_unsettled, found.trusted
        for match in found.to_confirm:
            await self._confirm_move(match)

    async def _confirm_move(self, match: Match) -> None:
        """Look the old machine up, before the record gets the one that has its name now."""
        began = self.clock.now()
        try:
            old = await self.cloud.instance(provider_id(match.record))
        except CloudError as error:
            log.warning("observer.look_failed", why=error.message)
            return
        await self._observations.record_move(match, old, began=began)

    async def _interval(self) -> float:
        """Short while anything moves, or the last listing left something open; long otherwise."""
        if self._is_unsettled:
            return self.policy.poll.total_seconds()
        async with self.database.connection() as connection:
            moving = await instances.in_motion(connection, sorted(IN_MOTION))
        return (self.policy.poll if moving else self.idle_interval).total_seconds()

    def _affordable_interval(self) -> float:
        """The seconds from look to look that its share of the budget allows."""
        return self._pages * 60 / (self.calls_per_minute() * SHARE_OF_BUDGET)


def _unless_done(task: asyncio.Task[None] | None) -> asyncio.Task[None] | None:
    """The task while it is under way; raises what it raised."""
    if task is None or not task.done():
        return task
    task.result()
    return None
