"""
Listing the account: one call a page for all instances, by one leader, more often while something changes.

The listing is compared with the records; only changes are written, in one statement, and only those instances are
reconciled. A failed listing changes nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

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
from corral.engine.observe.listing_schedule import ListingSchedule
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

Work = Callable[[], Coroutine[Any, Any, None]]
"""Runs beside the ticks, one at a time of each."""


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
    _woken: bool = field(default=False, init=False)
    _requested: bool = field(default=False, init=False)
    """Whether a create waits for a listing of all pages."""
    _begun_at: dict[Work, float] = field(default_factory=dict[Work, float], init=False)
    _trusted: bool = field(default=True, init=False)
    """Whether the last listing was complete and trusted."""
    _complete: bool = field(default=True, init=False)
    """Whether the last listing was complete."""
    _has_failed: bool = field(default=False, init=False)
    """Whether the last listing, or reading its newest page, failed."""
    _is_unsettled: bool = field(default=False, init=False)
    """Whether the last listing showed an unknown status or lacked a machine, which no phase shows."""
    _schedule: ListingSchedule = field(init=False)
    _coming_up: DirectLookups = field(init=False)
    _ending: DirectLookups = field(init=False)
    _settle_timer: SettleTimer = field(init=False)
    _name_lookups: NameLookups = field(init=False)
    _newest_page: NewestPage = field(init=False)
    _unseen_lookups: UnseenLookups = field(init=False)

    def __post_init__(self) -> None:
        """Make the parts that share the recorder of observations."""
        self._settle_timer = SettleTimer(self.clock, self.policy)
        self._schedule = ListingSchedule(
            clock=self.clock,
            policy=self.policy,
            idle_interval=self.idle_interval,
            calls_per_minute=self.calls_per_minute,
        )
        self._coming_up, self._ending = (
            DirectLookups(
                phases=phases,
                cloud=self.cloud,
                database=self.database,
                observations=self.observations,
                clock=self.clock,
                policy=self.policy,
                recent_lookups=self.recent_lookups,
                pages=self._listed_pages,
            )
            for phases in (AWAITED - ENDING, AWAITED & ENDING)
        )
        self._unseen_lookups = UnseenLookups(
            cloud=self.cloud,
            database=self.database,
            observations=self.observations,
            clock=self.clock,
            calls_per_minute=self.calls_per_minute,
            cycle_seconds=self._schedule.cycle_seconds,
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
        """Enqueue due instances at every tick; listings and lookups run beside it, because they may take minutes."""
        self._schedule.restart()
        self._begun_at.clear()
        running: dict[Work, asyncio.Task[None]] = {}
        beside = [asyncio.create_task(supervise(task, self.clock)) for task in self.leader_tasks]
        try:
            while True:
                await self.leadership.check()
                await self.sweep()
                running = {work: task for work, task in running.items() if unless_done(task) is not None}
                if (self._woken or self._requested) and self._list_on_schedule not in running:
                    await self._advance_listing()
                for work in self._due_work():
                    if work not in running:
                        self._begun_at[work] = self.clock.monotonic()
                        running[work] = asyncio.create_task(work())
                await self.clock.sleep(TICK_SECONDS)
        finally:
            left = [*running.values(), *beside]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    def _due_work(self) -> Iterator[Work]:
        now = self.clock.monotonic()
        if now >= self._schedule.due:
            yield self._list_on_schedule
        if not self._complete:
            yield self.look_up_unseen
        if self._schedule.is_slow() or self._has_failed or not self._trusted:
            for work in (self.look_up_coming_up, self.look_up_ending, self.look_up_names):
                if now >= self._begun_at.get(work, -math.inf) + self.policy.poll.total_seconds():
                    yield work

    async def _list_on_schedule(self) -> None:
        """Read the account, or its newest page if that is enough, and schedule the next listing."""
        began = self.clock.monotonic()
        if self._newest_page.suffices and began < self._schedule.all_due:
            shown = await self._newest_page.read()
            awaited, self._has_failed = await self._awaited(), shown is None
            if shown is not None:
                self._newest_page.after_page(shown, awaited)
            self._schedule.after_page(began, is_awaited=bool(awaited))
            return
        with self._schedule.listing():
            listing = await self.list_account()
        awaited, self._has_failed = await self._awaited(), listing is None
        if listing is not None:
            is_settled = self._trusted and not self._is_unsettled
            self._newest_page.after_listing(listing, awaited, is_settled=is_settled)
        self._schedule.after_listing(began, is_awaited=bool(awaited) or self._is_unsettled)
        every = self._schedule.all_due - began if self._newest_page.suffices else self._schedule.cycle_seconds()
        async with self.database.connection() as connection:
            await last_listing.announce(connection, timedelta(seconds=round(every)))

    async def _advance_listing(self) -> None:
        """List the account soon if the provider is expected to act, and all of it if a create waits for that."""
        is_requested, self._woken, self._requested = self._requested, False, False
        schedule, soon = self._schedule, self._schedule.soonest()
        if is_requested:
            schedule.all_due = min(schedule.all_due, soon)
        if soon < schedule.due and (is_requested or await self._awaited()):
            schedule.due = soon

    async def look_up_coming_up(self) -> None:
        """Look up a few instances that are being created or started."""
        # Quick listings that are not complete show every change soon, except that a machine is gone.
        if self._has_failed or (not self._newest_page.suffices and (self._complete or self._schedule.is_slow())):
            await self._coming_up.run()

    def _listed_pages(self) -> int | None:
        """How many pages a listing has; None while listings fail or hang."""
        return None if self._has_failed or self._schedule.is_hanging() else self._schedule.pages

    async def look_up_ending(self) -> None:
        """Look up a few instances that are being stopped or deleted."""
        if self._has_failed or not self._newest_page.suffices:
            await self._ending.run()

    async def look_up_names(self) -> None:
        """Look up creates in doubt by their names."""
        await self._name_lookups.run()

    async def look_up_unseen(self) -> None:
        """Look up a few machines that no page showed for long."""
        await self._unseen_lookups.run()

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
        self._schedule.pages = max(1, listing.pages)
        self.on_listing(listing, began)
        if self._schedule.is_listing:  # a leader may have been paused and replaced during the call
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
