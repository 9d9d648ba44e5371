"""
Measures instances whose lease has an idle rule: the leader reads how busy they were, and stores it.

Each call reads the time since the last measurement, so an instance that is read rarely loses none. All calls together
stay within the share of the rate limit for measurements; when it is used up they wait, and nothing else does. What is
not measured is unknown, and ends nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.base.metrics import Metrics, ReadEnd
from corral.cloud.port import Cloud
from corral.domain.errors import CircuitOpenError, CloudError, ShareUsedUpError, StoreUnavailableError
from corral.domain.instance import Instance, InstanceId
from corral.domain.leases.decide import LeaseDecision, judge
from corral.domain.leases.lease import IdleRule
from corral.domain.leases.samples import (
    expected_distance,
    from_utilization,
    stored_begin,
    stored_interval,
    summarized,
)
from corral.domain.machine.utilization import LEAST_INTERVAL, POINTS, Period
from corral.engine.observe.observations import reconcile_job
from corral.jobs.queue import JobQueue
from corral.store.session.database import Database
from corral.store.tables import instances, leases
from corral.store.tables.leases import MeasuredInstance

ROUND_SECONDS: Final = 5.0
"""How often it is checked which instances are due. Longer, and an end is noticed later; shorter, and the leader reads
the list of leases more often for nothing."""
LONGEST_ROUND_SECONDS: Final = 20.0
"""Of a round that waited for the rate limit, for so long is made up in the next. Longer, and an instance that ends soon
waits for more reads that are under way; shorter, and the share is not used when rounds wait."""
MOST_AT_ONCE: Final = 4
"""Reads at the same time. Fewer takes longer with many instances; more makes bursts of calls."""
READ_SECONDS: Final = 10.0
"""The longest that one read may take. Longer, and a few reads that hang delay all others; shorter, and a slow provider
measures nothing."""
MOST_FAILURES: Final = 9
"""Each failure in succession makes the pause before the next read one interval longer, up to so many."""
BEFORE_END: Final = timedelta(seconds=30)
"""An instance that ends within this time is read before all others: it ends only if it was idle up to then. Shorter,
and a busy minute keeps idle machines; longer only costs reads."""
AFTER_END: Final = timedelta(seconds=70)
"""How long after its time an end that waits for a measurement is read again: the provider is a minute late. Then it is
read as often as others, but before them. Shorter, and many that wait use up the share of the others for nothing;
longer, and an idle machine is billed longer."""
BEFORE_END_INTERVAL: Final = timedelta(seconds=10)
"""How often it is read in that time. Longer, and it is stopped although the provider already showed a load."""
_LONG: Final = 1e9
NOTHING: Final = timedelta(0)
KEPT_BEYOND: Final = timedelta(minutes=3)
"""Measurements are kept for the idle time and this much longer, because the window may end at the newest one."""


@dataclass(slots=True)
class _Progress:
    """How far one instance was read by this process."""

    read_at: float = -math.inf
    """By the monotonic clock."""
    until: datetime | None = None
    """The time of its newest measurement."""
    failures: int = 0
    """How many reads in succession failed."""


@dataclass(kw_only=True)
class IdleSampler:
    """Reads measurements; `run` it while this process leads."""

    cloud: Cloud
    database: Database
    queue: JobQueue
    clock: Clock
    metrics: Metrics
    calls_per_minute: Callable[[], float]
    """The share of the rate limit for measurements."""
    _progress: dict[InstanceId, _Progress] = field(default_factory=dict[InstanceId, _Progress], init=False)
    _began: float = field(default=-math.inf, init=False)
    """When the last round began, by the monotonic clock."""
    _allowance: float = field(default=0.0, init=False)
    """Reads that the share allows and that were not begun."""

    async def run(self) -> None:
        """Read what is due, again and again; never returns."""
        while True:
            began = self.clock.monotonic()
            try:
                await self.read_due()
            except StoreUnavailableError as error:
                log.warning("leases.sampling_interrupted", why=error.message)
            await self.clock.sleep(max(0.0, began + ROUND_SECONDS - self.clock.monotonic()))

    async def read_due(self) -> None:
        """
        Read instances that are due: those that end soon, and then the longest unread, as many as a round may.

        The share of the rate limit is spread over its minute. Used at once, it would be missing for the instances that
        end before the minute is over.
        """
        async with self.database.connection() as connection:
            found = await leases.measured(connection)
            new = [each.id for each in found if each.id not in self._progress]
            newest = await leases.newest_samples(connection, new) if new else {}
        self._progress = {
            each.id: self._progress.get(each.id) or _Progress(until=newest.get(each.id)) for each in found
        }
        now, elapsed = self.clock.now(), self.clock.monotonic()
        due = [each for each in found if self._is_due(each, now, elapsed)]
        ending = sum(_ends_soon(each, now) for each in due)
        due.sort(key=lambda each: (not _ends_soon(each, now), self._progress[each.id].read_at))
        waiting = due[: max(ending, self._most(elapsed))][::-1]
        self._allowance -= len(waiting)
        await asyncio.gather(*(self._read_some(waiting) for _ in range(min(MOST_AT_ONCE, len(waiting)))))

    def _is_due(self, machine: MeasuredInstance, now: datetime, elapsed: float) -> bool:
        """Whether it was not read for its interval, which is shorter when it ends soon and longer after failures."""
        progress = self._progress[machine.id]
        unread = timedelta(seconds=min(elapsed - progress.read_at, _LONG))
        left = None if machine.ends_at is None else machine.ends_at - now
        if left is not None and -AFTER_END < left <= NOTHING:
            return False
        if left is not None and NOTHING < left <= BEFORE_END and not progress.failures:
            return unread >= BEFORE_END_INTERVAL
        return unread >= _interval(machine) * (1 + min(progress.failures, MOST_FAILURES))

    def _most(self, now: float) -> int:
        """Reads of one round: what the share allows for the time since the last one, which may have waited."""
        passed, self._began = now - self._began, now
        most = max(1.0, self.calls_per_minute() * LONGEST_ROUND_SECONDS / 60)
        self._allowance = min(max(self._allowance, 0.0) + self.calls_per_minute() * min(passed, _LONG) / 60, most)
        return math.floor(self._allowance)

    async def _read_some(self, waiting: list[MeasuredInstance]) -> None:
        """Read from the end of *waiting* until it is empty; a used-up share or an open circuit empties it."""
        while waiting:
            machine = waiting.pop()
            progress = self._progress[machine.id]
            try:
                async with asyncio.timeout(READ_SECONDS):
                    await self._read(machine)
            except (ShareUsedUpError, CircuitOpenError):
                self.metrics.idle_reads.labels(ReadEnd.POSTPONED).inc()
                waiting.clear()
                return
            except StoreUnavailableError as error:
                log.warning("leases.sampling_interrupted", why=error.message)
                waiting.clear()
                return
            except (CloudError, TimeoutError) as error:
                log.debug("leases.read_failed", instance_id=machine.id, why=str(error))
                progress.failures += 1
                self.metrics.idle_reads.labels(ReadEnd.FAILED).inc()
            else:
                progress.failures = 0
                self.metrics.idle_reads.labels(ReadEnd.OK).inc()
            # Also a failed one: the others have their turn before it is tried again.
            progress.read_at = self.clock.monotonic()

    async def _read(self, machine: MeasuredInstance) -> None:
        """Store what the provider measured since the last time, and reconcile the instance if something follows."""
        progress, now = self._progress[machine.id], self.clock.now()
        within = _unread(machine, progress.until, now)
        seen = await self.cloud.utilization(machine.provider_id, within)
        if seen is None:
            return
        oldest, kept = now - machine.after - KEPT_BEYOND, replace(within, interval=_interval(machine))
        new = [sample for sample in from_utilization(seen, kept, gpus=machine.gpus) if oldest <= sample.at <= now]
        if not new:
            return
        until, distance, stored = new[-1].at, _interval(machine), stored_interval(_rule(machine))
        if stored > distance:
            new = summarized(new, stored, distance, begin=within.begin)
        async with self.database.transaction() as connection:
            await leases.add_samples(connection, machine.id, new, oldest=oldest)
            instance = await instances.load(connection, machine.id)
            known = await leases.samples(connection, machine.id)
            if instance is not None and _may_change(instance, judge(instance, known, self.clock.now())):
                await self.queue.add([reconcile_job(instance.id, instance.phase)]).run(connection)
        progress.until = until


def _ends_soon(machine: MeasuredInstance, now: datetime) -> bool:
    return machine.ends_at is not None and now >= machine.ends_at - BEFORE_END


def _interval(machine: MeasuredInstance) -> timedelta:
    """How often it is read, if the share of the rate limit allows."""
    return expected_distance(_rule(machine))


def _rule(machine: MeasuredInstance) -> IdleRule:
    return IdleRule(after=machine.after)


def _may_change(instance: Instance, decision: LeaseDecision) -> bool:
    return decision.command is not None or decision.state is not instance.lease


def _unread(machine: MeasuredInstance, until: datetime | None, now: datetime) -> Period:
    """
    The time since *until*, at most the idle time and what one answer can hold.

    It begins with the whole interval of *until*, which was perhaps measured only in part, and if intervals are
    summarized with the measurement before it.
    Its measurements are as close as the provider has them and an answer can hold, so that a short load is seen; of each
    interval the highest is stored.
    """
    earliest = now - min(machine.after + KEPT_BEYOND, POINTS * _interval(machine))
    interval, stored = _interval(machine), stored_interval(_rule(machine))
    known = earliest if until is None else stored_begin(until, stored) - (interval if stored > interval else NOTHING)
    begin = max(known, earliest)
    apart = timedelta(seconds=math.ceil((now - begin).total_seconds() / POINTS))
    return Period(begin=begin, end=now, interval=min(max(apart, LEAST_INTERVAL), interval))
