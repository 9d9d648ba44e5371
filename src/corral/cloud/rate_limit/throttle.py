"""
Requests to the provider wait here for a permit of the shared rate limiter.

Stops and deletes go before other changes, then come lookups that running machines wait for, then other reads.

Reads take turns (`TURNS`): a lookup does not wait for a whole listing or for all measurements, and a listing finishes
and measurements go on under any load.

One task asks the store for all waiters, so a burst costs one revision, not one each; calls that follow closely use
permits that were taken ahead (`permits_ahead.py`). While the store cannot be reached, a quarter of the last known limit
is granted locally, on top of what was known to be used; those permits are charged to the store when it is back. Only
then may several processes together exceed the limit, and a metric counts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from corral.base.clock import Clock, is_set_within
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.cloud.rate_limit import state as rate_limit_state
from corral.cloud.rate_limit.lanes import Lane, Permit, ReadKind, Waiter
from corral.cloud.rate_limit.permits_ahead import PermitsAhead
from corral.cloud.rate_limit.rate_limiter import Grant, RateLimiter, RateLimitStore
from corral.cloud.rate_limit.state import RateLimiterState
from corral.domain.errors import CloudTransientError, StoreError

Result = TypeVar("Result")

MOST_IN_FLIGHT: Final = 100
"""Requests in flight at once. More would queue in the connection pool while their permits age."""
MOST_READS_IN_FLIGHT: Final = 80
"""Reads that hang must not keep changes from being sent."""
URGENT_IN_FLIGHT: Final = 10
"""Stops and deletes in flight beside those: creates that hang must not keep them from being sent."""
_LOOKUP, _PAGE, _SAMPLE = ReadKind.LOOKUP, ReadKind.PAGE, ReadKind.SAMPLE
TURNS: Final = (
    *((_LOOKUP, _SAMPLE, _PAGE), (_LOOKUP, _PAGE, _SAMPLE), (_PAGE, _SAMPLE, _LOOKUP)),
    *((_LOOKUP, _SAMPLE, _PAGE), (_LOOKUP, _PAGE, _SAMPLE), (_SAMPLE, _PAGE, _LOOKUP)),
)
"""
Which kind of the waiting reads is first, second and third, in turn.

Two turns in three are for lookups, because users wait for what changes. More would delay the list and the ends of idle
leases; fewer, creates.
"""
LEAST_RETRY_SECONDS: Final = 1.0
"""
The least time after which to retry when no permit was granted in time; usually when the limit has room again.

Shorter, and callers that share little room ask again and again; longer, and room is unused for so long.
"""
URGENT_RETRY_AFTER_SECONDS: Final = 2.0
"""The same for a stop or delete: every second is billed, and few of them wait."""
LOCAL_SHARE: Final = 4
"""Without the store a process uses one part in four: a few processes stay within the limit together."""
LOCAL_SECONDS: Final = 5.0
"""How long the store is not asked after it failed; each failure costs up to a connection's time-out."""


class Throttle:
    """The throttle of one process. *fixed* is a limit a minute; None learns it."""

    def __init__(self, store: RateLimitStore, *, fixed: int | None, clock: Clock, metrics: Metrics) -> None:
        self._store = store
        self._fixed = fixed
        self._limiter = RateLimiter(fixed)
        self._clock = clock
        self._metrics = metrics
        self._waiting: dict[Lane, deque[Waiter]] = {lane: deque() for lane in Lane}
        self._in_flight = dict.fromkeys(Lane, 0)
        self._turns = itertools.cycle(TURNS)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._known = RateLimiterState()
        self._ahead = PermitsAhead(clock)
        self._store_away_until: float | None = None
        self._uncharged = 0
        self._short = False
        self._room_at = 0.0
        """When a change has room, by the monotonic clock, as far as is known."""
        self._note_limit()

    async def enter(
        self,
        *,
        change: bool,
        max_wait_seconds: float,
        kind: ReadKind = ReadKind.LOOKUP,
        is_urgent: bool = False,
        is_awaited: bool = False,
    ) -> Permit:
        """
        Wait for a permit; pass it to `leave` when the request ended.

        *kind*: of a read. *is_urgent*: a change that goes before the others. *is_awaited*: a lookup that goes before
        other reads. Raises CloudTransientError when none was granted in time.
        """
        lane = Lane.URGENT if is_urgent else Lane.CHANGE if change else Lane.LOOKUP if is_awaited else Lane.READ
        permit = self._taken_ahead(lane)
        if permit is not None:
            return permit
        waiter = Waiter(lane=lane, deadline=self._clock.monotonic() + max_wait_seconds, kind=kind)
        is_first = not self._waiters(lane)
        self._waiting[lane].append(waiter)
        self._wake(asks=lane is not Lane.READ or is_first)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            return await waiter.future
        except asyncio.CancelledError:
            # Granted and cancelled in the same tick: release the slot.
            if waiter.future.done() and not waiter.future.cancelled() and waiter.future.exception() is None:
                self.leave(waiter.future.result())
            raise

    def _taken_ahead(self, lane: Lane) -> Permit | None:
        """A permit that was taken ahead, for a change or an awaited lookup while no others wait."""
        if lane is not Lane.CHANGE and lane is not Lane.LOOKUP:
            return None
        is_free = sum(self._in_flight.values()) < MOST_READS_IN_FLIGHT and not any(self._waiting.values())
        granted_at = self._ahead.take(may_use=is_free)
        if granted_at is None:
            return None
        self._in_flight[lane] += 1
        return Permit(lane=lane, granted_at=granted_at)

    def leave(self, permit: Permit) -> None:
        """The request ended."""
        self._in_flight[permit.lane] -= 1
        self._wake(asks=any(self._waiting[lane] for lane in Lane if lane is not Lane.READ))

    async def throttled(self, permit: Permit, retry_after_seconds: float | None) -> None:
        """The provider answered 429 to the request of *permit*."""

        def change(state: RateLimiterState, now: float) -> tuple[RateLimiterState, None]:
            granted_at = min(permit.granted_at, now)
            return self._limiter.throttled(
                state, now, granted_at=granted_at, retry_after_seconds=retry_after_seconds, is_beyond=permit.is_beyond
            ), None

        before = self.limit
        self._ahead.forget()
        await self._revise(change)
        if self.limit < before:
            log.warning("cloud.budget_halved", limit=self.limit, before=before)

    async def close(self) -> None:
        """Fail every waiter."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for waiter in self._waiters():
            waiter.future.set_exception(CloudTransientError("this process no longer asks the provider"))

    async def _run(self) -> None:
        """Grant permits until there are no waiters."""
        try:
            while self._waiters():
                self._short = False
                self._changed.clear()
                wait = await self._serve()
                self._short = wait is not None
                if self._waiters():
                    await self._pause(wait)
        except Exception as error:  # noqa: BLE001  # this task's outermost frame: it must reach the waiters
            for waiter in self._waiters():
                waiter.future.set_exception(error)

    def _wake(self, *, asks: bool) -> None:
        """Serve the waiters; while permits are short, only one that *asks* makes a revision of the store."""
        if asks or not self._short:
            self._changed.set()

    async def _serve(self) -> float | None:
        """One round; returns the seconds until more permits, or None when only the end of a request can help."""
        self._fail_overdue()
        urgent, changes, lookups, reads = admissible = self._admissible()
        if not any(admissible):
            return None
        is_last_group = sum(admissible) == sum(map(len, self._waiting.values()))
        ahead = self._ahead.wanted() if is_last_group and self._store_away_until is None else 0

        def take(state: RateLimiterState, now: float) -> tuple[RateLimiterState, Grant]:
            return self._current_limiter().take(
                state, now, urgent=urgent, changes=changes, lookups=lookups, reads=reads, ahead=ahead
            )

        grant = await self._revise(take)
        self._room_at = self._clock.monotonic() + grant.room_seconds
        self._ahead.put(grant.ahead, grant.at)
        granted = (grant.urgent, grant.changes, grant.lookups, grant.reads)
        for lane, count in zip(Lane, granted, strict=True):
            self._grant(lane, count=count, granted_at=grant.at, beyond=grant.beyond if lane is Lane.URGENT else 0)
        if granted == admissible:
            return None
        wait = grant.wait_seconds
        if self._store_away_until is not None:  # our copy may be used up for a minute; the store may be back sooner
            wait = min(wait, self._store_away_until - self._clock.monotonic())
        return max(wait, rate_limit_state.EPSILON)

    def _admissible(self) -> tuple[int, int, int, int]:
        """How many waiters may be sent, by lane, as far as requests in flight allow."""
        self._waiters()
        waiting = {lane: len(queue) for lane, queue in self._waiting.items()}
        in_flight = self._in_flight
        free = MOST_IN_FLIGHT + URGENT_IN_FLIGHT - sum(in_flight.values())
        urgent = max(0, min(waiting[Lane.URGENT], free))
        free = MOST_IN_FLIGHT - sum(in_flight.values()) + in_flight[Lane.URGENT]
        changes = max(0, min(waiting[Lane.CHANGE], free))
        free = min(free - changes, MOST_READS_IN_FLIGHT - in_flight[Lane.LOOKUP] - in_flight[Lane.READ])
        lookups = max(0, min(waiting[Lane.LOOKUP], free))
        return urgent, changes, lookups, max(0, min(waiting[Lane.READ], free - lookups))

    def _grant(self, lane: Lane, *, count: int, granted_at: float, beyond: int) -> None:
        self._waiters()
        queue = self._waiting[lane]
        while count and queue:
            waiter = self._next_read(queue) if lane is Lane.READ else queue[0]
            queue.remove(waiter)
            self._in_flight[lane] += 1
            waiter.future.set_result(Permit(lane=lane, granted_at=granted_at, is_beyond=count <= beyond))
            count -= 1

    def _next_read(self, queue: deque[Waiter]) -> Waiter:
        """The first of the kind whose turn it is."""
        kinds = next(self._turns)
        return min(queue, key=lambda each: kinds.index(each.kind))

    async def _pause(self, wait: float | None) -> None:
        """Wait until *wait* is over, a waiter arrives, a request ends, or the first deadline of a waiter."""
        until_deadline = min(waiter.deadline for waiter in self._waiters()) - self._clock.monotonic()
        seconds = until_deadline if wait is None else min(wait, until_deadline)
        await is_set_within(self._changed, max(seconds, rate_limit_state.EPSILON), self._clock)

    def _fail_overdue(self) -> None:
        now = self._clock.monotonic()
        retry_after = max(LEAST_RETRY_SECONDS, self._room_at - now)
        for waiter in self._waiters():
            if waiter.deadline <= now:
                self._metrics.provider_permits_refused.inc()
                is_urgent = waiter.lane is Lane.URGENT
                waiter.future.set_exception(
                    CloudTransientError(
                        f"the rate limit of {self.limit} provider calls a minute is used up; try again later",
                        retry_after_seconds=URGENT_RETRY_AFTER_SECONDS if is_urgent else retry_after,
                    )
                )

    def _waiters(self, *lanes: Lane) -> list[Waiter]:
        """The waiters without a result, in *lanes* or in all; the others are removed."""
        for lane, queue in self._waiting.items():
            self._waiting[lane] = deque(waiter for waiter in queue if not waiter.future.done())
        return [waiter for lane in lanes or Lane for waiter in self._waiting[lane]]

    def _current_limiter(self) -> RateLimiter:
        if self._store_away_until is None:
            return self._limiter
        return RateLimiter(max(1, self._limiter.limit(self._known) // LOCAL_SHARE))

    async def _revise(self, change: Callable[[RateLimiterState, float], tuple[RateLimiterState, Result]]) -> Result:
        """Revise the shared state; while it cannot be reached, our copy of it."""
        if self._store_away_until is not None and self._clock.monotonic() < self._store_away_until:
            return self._revise_locally(change)
        was_away, self._store_away_until = self._store_away_until is not None, None
        # Permits older than the window no longer count.
        uncharged = (
            min(self._uncharged, sum(self._limiter.at(self._known, self._local_now()).counts)) if self._uncharged else 0
        )

        def shared(raw: bytes | None, now: float) -> tuple[bytes, tuple[RateLimiterState, Result]]:
            state = self._limiter.charge(rate_limit_state.decoded(raw, now), now, uncharged)
            state, result = change(state, now)
            return rate_limit_state.encoded(state), (state, result)

        try:
            self._known, result = await self._store.revise(shared)
        except StoreError:
            self._store_away_until = self._clock.monotonic() + LOCAL_SECONDS
            if not was_away:
                log.warning("cloud.budget_unshared", limit=self._current_limiter().limit(self._known))
            return self._revise_locally(change)
        if was_away:
            log.info("cloud.budget_shared_again", uncharged=uncharged)
        self._uncharged = 0
        self._note_limit()
        return result

    def _revise_locally(self, change: Callable[[RateLimiterState, float], tuple[RateLimiterState, Result]]) -> Result:
        self._known, result = change(self._known, self._local_now())
        if isinstance(result, Grant):
            self._uncharged += result.total
            self._metrics.provider_permits_unshared.inc(result.total)
        self._note_limit()
        return result

    def _local_now(self) -> float:
        """Our own clock, but never before the store's last time."""
        return max(self._known.at, self._clock.now().timestamp())

    def _note_limit(self) -> None:
        self.limit = self._current_limiter().limit(self._known)
