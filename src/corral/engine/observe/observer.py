"""
Listing the account: one call a page for all instances, by one leader, more often while something changes.

The listing is compared with the records; only changes are written, in one statement, and only those instances are
reconciled. A failed listing changes nothing.
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
from corral.domain.lifecycle.phases import IN_MOTION
from corral.domain.lifecycle.policy import Policy
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
from corral.store.installation import last_listing
from corral.store.session.database import Database
from corral.store.session.leadership import Leadership
from corral.store.tables import instances

TICK_SECONDS = 0.5
"""How often due instances are enqueued, and how soon a new request wakes the observer."""
SHARE_OF_BUDGET = 0.5
"""At most this share of the rate limit is used for listings; the rest is for commands."""
REST = 2.0
LONGEST_REST_SECONDS = 8.0
"""
After a listing the observer pauses for twice as long as it took, up to so many seconds: comparing thousands of
instances every two seconds would take more CPU time than the reconciles that follow.
"""


def _ignore(_listing: Listing, _listing_began: datetime) -> None:
    """The default of `on_listing`."""


@dataclass(kw_only=True)
class Observer:
    """Keeps the records up to date with the provider."""

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
    """Called with every listing and the time at which it began."""
    recent_lookups: RecentLookups
    """Lookups that the next reconcile in this process may use."""
    metrics: Metrics = field(default_factory=Metrics)
    _pages: int = field(default=1, init=False)
    _due: float = field(default=0.0, init=False)
    _not_before: float = field(default=0.0, init=False)
    """No listing begins earlier than this: its share of the rate limit and of CPU time is limited."""
    _listing_began: float | None = field(default=None, init=False)
    """When the listing under way began."""
    _lookup_due: float = field(default=0.0, init=False)
    _trusted: bool = field(default=True, init=False)
    """Whether the last listing was complete and trusted."""
    _is_unsettled: bool = field(default=False, init=False)
    """Whether the last listing showed an unknown status or lacked a machine, which no phase shows."""
    _observations: Observations = field(init=False)
    _direct_lookups: DirectLookups = field(init=False)
    _settle_timer: SettleTimer = field(init=False)
    _name_lookups: NameLookups = field(init=False)

    def __post_init__(self) -> None:
        """Make the parts that share the recorder of observations."""
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
        """List the account soon: something is about to change."""
        soon = self.clock.monotonic() + self.policy.poll.total_seconds()
        self._due = max(min(self._due, soon), self._not_before)

    async def run(self) -> None:
        """List the account whenever this process leads; never returns."""
        while True:
            try:
                async with self.leadership.leading():
                    log.info("observer.leading")
                    await self._lead()
            except StoreUnavailableError:
                log.warning("observer.interrupted")
                await self.clock.sleep(TICK_SECONDS)

    async def _lead(self) -> None:
        """Enqueue due instances at every tick; listings run beside it, because one may take minutes."""
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
        """List the account, and schedule the next listing."""
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
        """Whether listings take too long, are too far apart or are not trusted, so that lookups are made as well."""
        now = self.clock.monotonic()
        lasting = 0.0 if self._listing_began is None else now - self._listing_began
        is_long = max(lasting, self._affordable_interval()) >= self.policy.slow_listing.total_seconds()
        return (is_long or not self._trusted) and now >= self._lookup_due

    async def look_up_changing(self) -> None:
        """Look up a few changing instances by their ids, and creates in doubt by their names."""
        self._lookup_due = self.clock.monotonic() + self.policy.poll.total_seconds()
        await self._direct_lookups.run(pages=self._pages)
        await self._name_lookups.run()

    async def sweep(self) -> None:
        """Enqueue jobs for the instances that are due."""
        async with self.database.transaction() as connection:
            due = await instances.due(connection, self.clock.now())
            if due:
                await self.queue.add([reconcile_job(each, phase) for each, phase in due]).run(connection)

    async def list_account(self) -> None:
        """List the whole account once and record the difference; an unreachable provider changes nothing."""
        async with self.database.connection() as connection:
            begun = await last_listing.begin(connection)
        began, began_at = self.clock.now(), self.clock.monotonic()
        try:
            listing = await self.cloud.instances()
        except CloudError as error:
            log.warning("observer.listing_failed", why=error.message)
            self.metrics.listings.labels(ListingEnd.FAILED).inc()
            return
        self.metrics.listings.labels(ListingEnd.COMPLETE if listing.complete else ListingEnd.PARTIAL).inc()
        self.metrics.look_seconds.observe((self.clock.now() - began).total_seconds())
        self._pages = max(1, listing.pages)
        self.on_listing(listing, began)
        if self._listing_began is not None:  # a leader may have been paused and replaced during the call
            await self.leadership.check()
        settled = partial(self._settle_timer.settled, began=began_at)
        found = await self._observations.record(listing, began=began, settled=settled, begun=begun)
        if listing.complete and self._trusted and not found.trusted:
            log.warning("observer.listing_not_trusted", listed=len(listing.instances))
        self._is_unsettled, self._trusted = found.is_unsettled, found.trusted
        for match in found.to_confirm:
            await self._confirm_move(match)

    async def _confirm_move(self, match: Match) -> None:
        """Look the old machine up before the record gets the new one with the same name."""
        began = self.clock.now()
        try:
            old = await self.cloud.instance(provider_id(match.record))
        except CloudError as error:
            log.warning("observer.listing_failed", why=error.message)
            return
        await self._observations.record_move(match, old, began=began)

    async def _interval(self) -> float:
        """Seconds between listings: few while anything changes, or the last one left something unsettled."""
        if self._is_unsettled:
            return self.policy.poll.total_seconds()
        async with self.database.connection() as connection:
            moving = await instances.in_motion(connection, sorted(IN_MOTION))
        return (self.policy.poll if moving else self.idle_interval).total_seconds()

    def _affordable_interval(self) -> float:
        """The seconds between listings that their share of the rate limit allows."""
        return self._pages * 60 / (self.calls_per_minute() * SHARE_OF_BUDGET)


def _unless_done(task: asyncio.Task[None] | None) -> asyncio.Task[None] | None:
    """The task while it runs, else None; raises what it raised."""
    if task is None or not task.done():
        return task
    task.result()
    return None
