"""
How often the provider may be called, by all processes together.

Pure: functions of a state and a time; `RateLimitStore` keeps the state where every process sees it.

*Never more than the limit in any minute.* Permits are counted by the second, and one is granted only if those of the
last 62 seconds stay within the limit. That is a minute, plus one second because a second is counted whole, plus one for
the way from the permit to the wire. A token bucket would allow its capacity on top of its rate.

*Stops and deletes overtake other changes.* They are *urgent*: every second they wait is billed. One call in 25 is kept
for them, so that a stop or delete is sent at once however many creates wait for the rate limit. With *auto*,
where the limit is an estimate, one of them may be sent every two seconds on top of it: after a series of 429 the calls
of the last minute are more than the new limit, and a delete would wait for a minute after throttling ended.

*Changes overtake reads.* Reads take two thirds of the limit at most, spaced evenly after a small burst, so that a
create finds room at any time and a listing never waits for a minute. When changes must wait all the same, reads of
every process wait for them, except for a tenth of the limit that changes never take: without observations, creates
would not make progress either.

*auto* begins at 300 a minute, halves on a 429 (once for all calls that were under way), grows by a tenth with each
minute without one, and stays between 30 and 3,000.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Final, Protocol, TypeVar

import msgspec

Result = TypeVar("Result")

FIRST_LIMIT: Final = 300.0
LEAST_LIMIT: Final = 30.0
MOST_LIMIT: Final = 3000.0
GROWTH: Final = 1.1
GROWTH_SECONDS: Final = 60.0
WINDOW_SECONDS: Final = 62
RESERVED_SHARE: Final = 5
"""One part in five is for changes: enough for a burst of creates, and reads lose little."""
KEPT_SHARE: Final = 10
"""One part in ten is for reads alone; at 300 a minute that is a page every two seconds, whatever else is asked."""
URGENT_SHARE: Final = 25
"""
One part in 25 is for stops and deletes alone: 12 of 300 calls a minute, 1 of 30, none below 25 a minute.

Smaller, and a stop or delete waits up to a minute behind a crowd of creates; larger, and creates and reads lose
calls that are seldom needed.
"""
URGENT_SECONDS: Final = 2.0
"""
How often, with `auto`, a stop or delete is sent although the limit is used up.

Shorter, and calls to a provider that throttles are many more than the limit; longer, and machines are billed for longer
after the provider is ready to stop them.
"""
BURST_SHARE: Final = 10
"""One part in ten may be read at once: a listing of thousands of instances fits."""
YIELD_SECONDS: Final = 1.0
"""How long after its turn a waiting change holds reads back: the time in which it asks again."""
LARGEST_SLIP_SECONDS: Final = 1.0
"""If the clock steps back by less, time stops for as long; if by more, the clock was set."""
EPSILON: Final = 1e-6


class RateLimiterState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored state. Times are unix seconds of the store's clock; every field has a default."""

    limit: float = FIRST_LIMIT
    at: float = 0.0
    """When it was last revised."""
    second: int = 0
    """The second that the last of `counts` is about."""
    counts: tuple[int, ...] = ()
    """Permits granted in each second, oldest first."""
    reads_from: float = 0.0
    """When the next read would be due if reads were evenly spaced."""
    kept_from: float = 0.0
    """When the next read may take from what is kept for reads."""
    shut_until: float = 0.0
    """The provider asked for a pause (Retry-After) until then."""
    changes_first_until: float = 0.0
    """Until then reads wait, because a change waits."""
    urgent_from: float = 0.0
    """When the next stop or delete may be sent although the limit is used up."""
    halved_at: float = 0.0
    grown_at: float = 0.0


class Grant(msgspec.Struct, frozen=True):
    """How many changes and reads may be sent now, and when to ask for the rest."""

    changes: int
    reads: int
    at: float
    """When, by the store's clock; to be passed to `throttled`."""
    wait_seconds: float
    limit: int
    urgent: int = 0
    """Stops and deletes that may be sent."""

    @property
    def total(self) -> int:
        """All permits granted."""
        return self.urgent + self.changes + self.reads


class RateLimitStore(Protocol):
    """Keeps the state and provides the clock; revisions of all processes happen one after the other."""

    async def revise(self, change: Callable[[bytes | None, float], tuple[bytes, Result]]) -> Result:
        """
        Replace the state by what *change* makes of it and of the present time; returns its second result.

        *change* is pure and may be called again. Raises StoreUnavailableError when the state cannot be reached.
        """
        ...


class RateLimiter:
    """The rules of one rate limit: a *fixed* number of calls a minute, or `auto` when it is None."""

    def __init__(self, fixed: int | None) -> None:
        self._fixed = fixed

    def take(
        self, state: RateLimiterState, now: float, *, changes: int, reads: int, urgent: int = 0
    ) -> tuple[RateLimiterState, Grant]:
        """Grant as many of these *urgent* changes, other *changes* and *reads* as possible, in this order."""
        state = self.at(state, now)
        now = state.at
        limit = self.limit(state)
        if now < state.shut_until - EPSILON:
            return state, Grant(0, 0, now, state.shut_until - now, limit)
        kept = limit // KEPT_SHARE
        for_changes = limit - kept - limit // URGENT_SHARE
        state, granted_urgent = self._take_urgent(state, now, limit - kept, urgent)
        granted_changes = max(0, min(changes, for_changes - sum(state.counts)))
        state = _counted(state, granted_changes)
        wait = 0.0
        if granted_urgent < urgent or granted_changes < changes:
            wait = self._wait_for_room(state, limit - kept if granted_urgent < urgent else for_changes, now)
            if granted_urgent < urgent and self._fixed is None:
                wait = min(wait, max(EPSILON, state.urgent_from - now))
            state = msgspec.structs.replace(
                state, changes_first_until=max(state.changes_first_until, now + wait + YIELD_SECONDS)
            )
        granted_reads = 0
        shared = for_changes - limit // RESERVED_SHARE
        must_wait = now < state.changes_first_until - EPSILON
        if reads and not must_wait and sum(state.counts) < shared:
            state, granted_reads, wait = self._take_reads(state, now, limit, shared, reads)
        elif reads and kept:
            state, granted_reads, until_kept = self._take_kept(state, now, limit, kept, reads)
            # Room for reads may be there again long before what is kept for them.
            room = 0.0 if sum(state.counts) < shared else self._wait_for_room(state, shared, now)
            until_shared = max(room, state.changes_first_until - now)
            wait = min(filter(None, (wait, until_kept, until_shared)), default=0.0)
        elif reads:
            wait = max(wait, state.changes_first_until - now, self._wait_for_room(state, shared, now))
        return state, Grant(granted_changes, granted_reads, now, wait, limit, granted_urgent)

    def charge(self, state: RateLimiterState, now: float, permits: int) -> RateLimiterState:
        """Count *permits* that were granted locally while this state could not be reached."""
        return _counted(self.at(state, now), permits)

    def throttled(
        self, state: RateLimiterState, now: float, *, granted_at: float, retry_after_seconds: float | None
    ) -> RateLimiterState:
        """The provider answered 429 to a call with a permit granted at *granted_at*."""
        state = self.at(state, now)
        now = state.at
        if retry_after_seconds:
            state = msgspec.structs.replace(state, shut_until=max(state.shut_until, now + retry_after_seconds))
        halved = state.limit
        if granted_at >= state.halved_at:  # calls under way at the last halving are no new evidence
            halved = max(LEAST_LIMIT, state.limit / 2)
            state = msgspec.structs.replace(state, halved_at=now + EPSILON)
        return msgspec.structs.replace(state, limit=halved, grown_at=now)

    def limit(self, state: RateLimiterState) -> int:
        """Calls a minute, as of *state*."""
        return self._fixed if self._fixed is not None else int(state.limit + EPSILON)

    def at(self, state: RateLimiterState, now: float) -> RateLimiterState:
        """The state at *now*: old permits dropped, the limit grown. `at` never runs backwards."""
        if now < state.at - LARGEST_SLIP_SECONDS:
            state = _shifted(state, now)
        now = max(now, state.at)
        second = math.floor(now)
        counts = state.counts
        gone = min(second - state.second, WINDOW_SECONDS) if state.counts else 0
        if gone > 0:
            counts = (*counts, *([0] * gone))
        grown_at = state.grown_at or now
        minutes = max(0, math.floor((now - grown_at + EPSILON) / GROWTH_SECONDS))
        # The exponent is bounded because a hundred minutes reach the limit from anywhere.
        grown = min(MOST_LIMIT, state.limit * GROWTH ** min(minutes, 100))
        return msgspec.structs.replace(
            state,
            at=now,
            second=second,
            counts=counts[-WINDOW_SECONDS:],
            limit=grown,
            grown_at=grown_at + minutes * GROWTH_SECONDS,
        )

    def _take_urgent(
        self, state: RateLimiterState, now: float, allowed: int, urgent: int
    ) -> tuple[RateLimiterState, int]:
        given = max(0, min(urgent, allowed - sum(state.counts)))
        if given < urgent and self._fixed is None and now >= state.urgent_from - EPSILON:
            given += 1
            state = msgspec.structs.replace(state, urgent_from=now + URGENT_SECONDS)
        return _counted(state, given), given

    def _take_reads(
        self, state: RateLimiterState, now: float, limit: int, shared: int, reads: int
    ) -> tuple[RateLimiterState, int, float]:
        burst = max(1, limit // BURST_SHARE)
        # Spaced over the window, not the minute: a burst and what follows then fill it without a pause.
        gap = WINDOW_SECONDS / max(1, shared - burst)
        room = shared - sum(state.counts)
        # Even spacing with a burst: the next may be sent up to `burst` places before it is due.
        due = max(state.reads_from, now)
        in_step = max(0, burst - math.ceil((due - now) / gap - EPSILON))
        given = min(reads, room, in_step)
        if given:
            state = _counted(msgspec.structs.replace(state, reads_from=due + given * gap), given)
        if given == reads:
            return state, given, 0.0
        if room - given <= 0:
            return state, given, self._wait_for_room(state, shared, now)
        return state, given, max(EPSILON, state.reads_from - now - (burst - 1) * gap)

    def _take_kept(
        self, state: RateLimiterState, now: float, limit: int, kept: int, reads: int
    ) -> tuple[RateLimiterState, int, float]:
        """Reads while changes wait: one at a time, evenly over the window, out of what is kept for them."""
        gap = WINDOW_SECONDS / kept
        due = max(state.kept_from, now)
        if due > now + EPSILON:
            return state, 0, due - now
        if sum(state.counts) >= limit:
            return state, 0, self._wait_for_room(state, limit, now)
        state = _counted(msgspec.structs.replace(state, kept_from=due + gap), 1)
        return state, 1, gap if reads > 1 else 0.0

    def _wait_for_room(self, state: RateLimiterState, allowed: int, now: float) -> float:
        """Seconds until one more permit fits under *allowed*, which is at least 1 and used up."""
        excess = sum(state.counts) - allowed + 1
        oldest = state.second - len(state.counts) + 1
        place = next(place for place, gone in enumerate(accumulate(state.counts)) if gone >= excess)
        return max(EPSILON, oldest + place + WINDOW_SECONDS - now)


def decoded(raw: bytes | None, now: float) -> RateLimiterState:
    """The state in *raw*. An unreadable one (written by another release) counts as a minute just used up."""
    if raw is None:
        return RateLimiterState()
    try:
        return msgspec.json.decode(raw, type=RateLimiterState)
    except msgspec.MsgspecError:
        return RateLimiterState(shut_until=now + WINDOW_SECONDS)


def encoded(state: RateLimiterState) -> bytes:
    """The state as it is stored."""
    return msgspec.json.encode(state)


def _counted(state: RateLimiterState, permits: int) -> RateLimiterState:
    if permits <= 0:
        return state
    counts = state.counts or (0,)
    return msgspec.structs.replace(state, counts=(*counts[:-1], counts[-1] + permits))


def _shifted(state: RateLimiterState, now: float) -> RateLimiterState:
    """The state after the clock was set back: as if no time had passed."""
    by = now - state.at
    return msgspec.structs.replace(
        state,
        at=now,
        second=math.floor(now),
        reads_from=state.reads_from + by,
        kept_from=state.kept_from + by,
        shut_until=state.shut_until + by,
        changes_first_until=state.changes_first_until + by,
        urgent_from=state.urgent_from + by,
        halved_at=state.halved_at + by,
        grown_at=state.grown_at + by if state.grown_at else 0.0,
    )
