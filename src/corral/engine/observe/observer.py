"""
Listing the account: one call a page for all instances, by one leader, more often while something changes.

The listing is compared with the records; only changes are written, in one statement, and only those instances are
reconciled. A failed listing changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from corral.base.clock import Clock
from corral.base.log import log
from corral.base.metrics import ListingEnd, Metrics
from corral.base.supervision import BackgroundTask, supervise, unless_done
from corral.cloud.port import Cloud, Listing
from corral.domain.errors import CloudError, StoreUnavailableError
from corral.domain.lifecycle.phases import ENDING
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.direct_lookup import AWAITED
from corral.domain.observation.matching import Match
from corral.engine.observe.direct_lookups import DirectLookups
from corral.engine.observe.name_filter import NameFilter
from corral.engine.observe.name_lookups import NameLookups
from corral.engine.observe.newest_page import NewestPage
from corral.engine.observe.observations import Observations, reconcile_job
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.observe.settle_timer import SettleTimer
from corral.engine.observe.unseen_lookups import UnseenLookups
from corral.engine.reconcile.outcome import provider_id
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
"""After a listing the observer pauses for twice as long as it took, up to so many seconds: comparing thousands of
instances every two seconds would take more CPU time than the reconciles that follow."""


def _ignore(_listing: Listing, _listing_began: datetime) -> None:
    """The default of `on_listing`."""


@dataclass(kw_only=True)
class Observer:
    """Keeps the records up to date with the provider."""

    cloud: Cloud
    database: Database
    queue: JobQueue
    observations: Observations
    leadership: Leadership
    clock: Clock
    policy: Policy
    installation: str
    idle_interval: timedelta
    calls_per_minute: Callable[[], int]
    on_listing: Callable[[Listing, datetime], None] = _ignore
    """Called with every listing and the time at which it began."""
    leader_tasks: Sequence[BackgroundTask] = ()
    """Further work of the leader."""
    recent_lookups: RecentLookups
    """Lookups that the next reconcile in this process may use."""
    metrics: Metrics = field(default_factory=Metrics)
    _pages: int = field(default=1, init=False)
    _due: float = field(default=0.0, init=False)
    _all_due: float = field(default=0.0, init=False)
    """When all pages are read again, also if the newest is enough to see what changes."""
    _woken: bool = field(default=False, init=False)
    _requested: bool = field(default=False, init=False)
    """Whether a create waits for a listing of all pages."""
    _not_before: float = field(default=0.0, init=False)
    """No listing begins earlier than this: its share of the rate limit and of CPU time is limited."""
    _listing_began: float | None = field(default=None, init=False)
    """When the listing under way began."""
    _lookup_due: float = field(default=0.0, init=False)
    _trusted: bool = field(default=True, init=False)
    """Whether the last listing was complete and trusted."""
    _complete: bool = field(default=True, init=False)
    """Whether the last listing was complete."""
    _has_failed: bool = field(default=False, init=False)
    """Whether the last listing, or reading its newest page, failed."""
    _cycle_seconds: float = field(default=0.0, init=False)
    """From the beginning of the last listing to that of the next."""
    _is_unsettled: bool = field(default=False, init=False)
    """Whether the last listing showed an unknown status or lacked a machine, which no phase shows."""
    _direct_lookups: DirectLookups = field(init=False)
    _settle_timer: SettleTimer = field(init=False)
    _name_lookups: NameLookups = field(init=False)
    _newest_page: NewestPage = field(init=False)
    _unseen_lookups: UnseenLookups = field(init=False)

    def __post_init__(self) -> None:
        """Make the parts that share the recorder of observations."""
        self._settle_timer = SettleTimer(self.clock, self.policy)
        self._direct_lookups = DirectLookups(
            cloud=self.cloud,
            database=self.database,
            observations=self.observations,
            clock=self.clock,
            policy=self.policy,
            recent_lookups=self.recent_lookups,
        )
        self._unseen_lookups = UnseenLookups(
            cloud=self.cloud,
            database=self.database,
            observations=self.observations,
            clock=self.clock,
            calls_per_minute=self.calls_per_minute,
        )
        self._newest_page = NewestPage(
            cloud=self.cloud, observations=self.observations, leadership=self.leadership, clock=self.clock
        )
        self._name_lookups = NameLookups(
            filter=NameFilter(cloud=self.cloud, database=self.database, installation=self.installation),
            database=self.database,
            observations=self.observations,
            clock=self.clock,
            settle_timer=self._settle_timer,
        )

    def wake(self) -> None:
        """Check at the next tick whether a machine is expected to change, and list the account soon then."""
        self._woken = True

    def request_listing(self) -> None:
        """List all pages soon: a create of some process waits for a complete listing."""
        self._requested = True

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
        self._due = self._all_due = self._lookup_due = self.clock.monotonic()
        listing_task: asyncio.Task[None] | None = None
        lookup_task: asyncio.Task[None] | None = None
        unseen_task: asyncio.Task[None] | None = None
        beside = [asyncio.create_task(supervise(task, self.clock)) for task in self.leader_tasks]
        try:
            while True:
                await self.leadership.check()
                await self.sweep()
                listing_task, lookup_task = unless_done(listing_task), unless_done(lookup_task)
                unseen_task = unless_done(unseen_task)
                if (self._woken or self._requested) and listing_task is None:
                    await self._advance_listing()
                if listing_task is None and self.clock.monotonic() >= self._due:
                    listing_task = asyncio.create_task(self._list_on_schedule())
                if lookup_task is None and self._is_lookup_due():
                    lookup_task = asyncio.create_task(self.look_up_changing())
                if unseen_task is None and not self._complete:
                    unseen_task = asyncio.create_task(self.look_up_unseen())
                await self.clock.sleep(TICK_SECONDS)
        finally:
            left = [task for task in (listing_task, lookup_task, unseen_task, *beside) if task is not None]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    async def _list_on_schedule(self) -> None:
        """Read the account, or its newest page if that is enough, and schedule the next listing."""
        began = self.clock.monotonic()
        if self._newest_page.suffices and began < self._all_due:
            shown = await self._newest_page.read()
            awaited, self._has_failed = await self._awaited(), shown is None
            if shown is not None:
                self._newest_page.after_page(shown, awaited)
            self._schedule(began, pages=1, is_awaited=bool(awaited))
            self._due = min(self._due, self._all_due)
            return
        self._listing_began = began
        try:
            listing = await self.list_account()
        finally:
            self._listing_began = None
        awaited, self._has_failed = await self._awaited(), listing is None
        if listing is not None:
            is_settled = self._trusted and not self._is_unsettled
            self._newest_page.after_listing(listing, awaited, is_settled=is_settled)
        self._schedule(began, pages=self._pages, is_awaited=bool(awaited) or self._is_unsettled)
        self._all_due = began + max(self.idle_interval.total_seconds(), self._due - began)
        self._cycle_seconds = max(self._due, self.clock.monotonic()) - began
        every = self._all_due - began if self._newest_page.suffices else self._cycle_seconds
        async with self.database.connection() as connection:
            await last_listing.announce(connection, timedelta(seconds=round(every)))

    def _schedule(self, began: float, *, pages: int, is_awaited: bool) -> None:
        """Set when to read again after *pages* pages: soon if the provider is to act, else after the idle interval."""
        now = self.clock.monotonic()
        rest = min((now - began) * REST, LONGEST_REST_SECONDS)
        self._not_before = max(began + self._affordable_interval(pages), now + rest)
        interval = self.policy.poll if is_awaited else self.idle_interval
        self._due = max(began + interval.total_seconds(), self._not_before)

    async def _advance_listing(self) -> None:
        """List the account soon if the provider is expected to act, and all of it if a create waits for that."""
        is_requested, self._woken, self._requested = self._requested, False, False
        soon = max(self.clock.monotonic() + self.policy.poll.total_seconds(), self._not_before)
        if is_requested:
            self._all_due = min(self._all_due, soon)
        if soon < self._due and (is_requested or await self._awaited()):
            self._due = soon

    def _is_lookup_due(self) -> bool:
        """Whether listings are slow, fail or are not trusted, so that lookups are made as well."""
        return (self._is_slow() or self._has_failed or not self._trusted) and self.clock.monotonic() >= self._lookup_due

    def _is_slow(self) -> bool:
        """Whether listings take too long or are too far apart to wait for the next."""
        return max(self._lasting(), self._affordable_interval(self._pages)) >= self.policy.slow_listing.total_seconds()

    def _lasting(self) -> float:
        """For how many seconds the listing under way has lasted; 0 if there is none."""
        return 0.0 if self._listing_began is None else self.clock.monotonic() - self._listing_began

    async def look_up_changing(self) -> None:
        """Look up a few changing instances by their ids, and creates in doubt by their names."""
        self._lookup_due = self.clock.monotonic() + self.policy.poll.total_seconds()
        if self._has_failed or not self._newest_page.suffices:
            # Quick listings that are not complete show every change soon, except that a machine is gone.
            phases = AWAITED if self._complete or self._is_slow() or self._has_failed else AWAITED & ENDING
            await self._direct_lookups.run(phases, pages=self._pages)
        await self._name_lookups.run()

    async def look_up_unseen(self) -> None:
        """Look up a few machines that no page showed for long; changing instances do not wait for these lookups."""
        await self._unseen_lookups.run(cycle_seconds=max(self._cycle_seconds, self._lasting()))

    async def sweep(self) -> None:
        """Enqueue jobs for the instances that are due."""
        async with self.database.transaction() as connection:
            due = await instances.due(connection, self.clock.now())
            if due:
                await self.queue.add([reconcile_job(each, phase) for each, phase in due]).run(connection)

    async def list_account(self) -> Listing | None:
        """List the whole account once and record the difference; an unreachable provider (None) changes nothing."""
        async with self.database.connection() as connection:
            begun = await last_listing.begin(connection)
        began, began_at = self.clock.now(), self.clock.monotonic()
        try:
            listing = await self.cloud.instances(self._unseen_lookups.note)
        except CloudError as error:
            log.warning("observer.listing_failed", why=error.message)
            self.metrics.listings.labels(ListingEnd.FAILED).inc()
            return None
        self.metrics.listings.labels(ListingEnd.COMPLETE if listing.complete else ListingEnd.PARTIAL).inc()
        self.metrics.look_seconds.observe((self.clock.now() - began).total_seconds())
        self._pages = max(1, listing.pages)
        self.on_listing(listing, began)
        if self._listing_began is not None:  # a leader may have been paused and replaced during the call
            await self.leadership.check()
        settled = partial(self._settle_timer.settled, began=began_at)
        found = await self.observations.record(listing, began=began, settled=settled, begun=begun)
        if listing.complete and self._trusted and not found.trusted:
            log.warning("observer.listing_not_trusted", listed=len(listing.instances))
        self._is_unsettled, self._trusted, self._complete = found.is_unsettled, found.trusted, listing.complete
        for match in found.to_confirm:
            await self._confirm_move(match)
        return listing

    async def _confirm_move(self, match: Match) -> None:
        """Look the old machine up before the record gets the new one with the same name."""
        began = self.clock.now()
        try:
            old = await self.cloud.instance(provider_id(match.record))
        except CloudError as error:
            log.warning("observer.listing_failed", why=error.message)
            return
        await self.observations.record_move(match, old, began=began)

    async def _awaited(self) -> list[str | None]:
        """The machines that the provider is expected to change; if only Corral is to act, a listing shows no news."""
        async with self.database.connection() as connection:
            return await instances.awaiting_provider(connection, sorted(AWAITED))

    def _affordable_interval(self, pages: int) -> float:
        """The seconds between listings of *pages* pages that their share of the rate limit allows."""
        return pages * 60 / (self.calls_per_minute() * SHARE_OF_BUDGET)
