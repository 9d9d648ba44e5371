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

*Changes overtake reads.* Reads take three quarters of the limit at most, spaced evenly after a small burst, so that
reads alone leave room for a create at any time and a listing never waits for a minute. They take less, down to half,
while there are many changes, so that these seldom wait. When changes must wait, reads of every process wait for them,
except for a tenth of the limit that changes leave to reads: without observations, creates would not make progress
either.

*A lookup that a running machine waits for to become usable shares the limit with changes*, not with other reads, and
is not spaced: it ends a wait that is billed. When both are short of room each gets half.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Final, Protocol, TypeVar

import msgspec

from corral.cloud.rate_limit import learned_limit
from corral.cloud.rate_limit.state import EPSILON, WINDOW_SECONDS, RateLimiterState, counted, shifted

Result = TypeVar("Result")

RESERVED_SHARE: Final = 5
"""One part in five is never read: enough for a burst of creates, and reads lose little."""
LEFT_TO_CHANGES: Final = 1.25
"""Reads leave room for so many times the changes of the last minute. More, and the list is read less often than it
could be; less, and changes that come together wait, with all reads behind them."""
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
AHEAD_SHARE: Final = 300
"""
One part in 300 may be granted ahead at once: 10 of 3,000 calls a minute, none below 300 a minute.

Larger, and a limit that is scarce is spent on calls that are not made; smaller, and a burst takes more transactions.
"""
BURST_SHARE: Final = 10
"""One part in ten may be read at once: a listing of thousands of instances fits."""
YIELD_SECONDS: Final = 1.0
"""How long after its turn a waiting change holds reads back: the time in which it asks again."""
LARGEST_SLIP_SECONDS: Final = 1.0
"""If the clock steps back by less, time stops for as long; if by more, the clock was set."""


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
    lookups: int = 0
    """Awaited lookups that may be sent."""
    ahead: int = 0
    """Permits for changes and awaited lookups that will probably follow."""
    room_seconds: float = 0.0
    """Until a change or an awaited lookup has room; 0: now, as far as is known."""
    beyond: int = 0
    """Stops and deletes, of those in `urgent`, that are sent although the limit is used up."""

    @property
    def total(self) -> int:
        """All permits granted."""
        return self.urgent + self.changes + self.lookups + self.reads + self.ahead


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
        self,
        state: RateLimiterState,
        now: float,
        *,
        changes: int,
        reads: int,
        urgent: int = 0,
        lookups: int = 0,
        ahead: int = 0,
    ) -> tuple[RateLimiterState, Grant]:
        """
        Grant as many of these *urgent* changes, other *changes*, awaited *lookups* and *reads* as possible.

        And *ahead* permits, for calls that will probably follow: up to one part in AHEAD_SHARE, and only if half of the
        limit is still free then.
        """
        state = self.at(state, now)
        now = state.at
        limit = self.limit(state)
        if now < state.shut_until - EPSILON:
            shut = state.shut_until - now
            return state, Grant(0, 0, now, shut, limit, room_seconds=shut)
        kept = limit // KEPT_SHARE
        unread = max(0, kept - sum(state.reads))
        for_changes = limit - unread - limit // URGENT_SHARE
        state, granted_urgent, beyond = self._take_urgent(state, now, limit - unread, urgent)
        state, granted_changes, granted_lookups = _take_shared(state, for_changes, changes, lookups)
        wait = 0.0
        if granted_urgent < urgent or granted_changes < changes or granted_lookups < lookups:
            allowed = limit - unread if granted_urgent < urgent else for_changes
            wait = max(EPSILON, _wait_for_room(state.counts, allowed, state.second, now))
            if granted_urgent < urgent and self._fixed is None:
                wait = min(wait, max(EPSILON, state.urgent_from - now))
            if self._fixed is None:
                state, wait = learned_limit.when_short(state, now, wait)
            state = msgspec.structs.replace(
                state, changes_first_until=max(state.changes_first_until, now + wait + YIELD_SECONDS)
            )
        room = wait
        granted_reads = 0
        until_turn = state.changes_first_until - now
        until_room = max(until_turn, self._wait_for_reads(state, limit, for_changes, now))
        if reads and until_room <= EPSILON:
            state, granted_reads, wait = self._take_reads(state, now, limit, for_changes, reads)
        elif reads:
            # What is kept for reads may be due long after there is room for them again.
            state, granted_reads, until_kept = self._take_kept(state, now, limit, reads)
            wait = min(filter(None, (wait, until_kept, until_room)), default=0.0)
        ahead = max(0, min(ahead, limit // AHEAD_SHARE, limit // 2 - sum(state.counts)))
        return counted(state, ahead), Grant(
            granted_changes, granted_reads, now, wait, limit, granted_urgent, granted_lookups, ahead, room, beyond
        )

    def charge(self, state: RateLimiterState, now: float, permits: int) -> RateLimiterState:
        """Count *permits* that were granted locally while this state could not be reached."""
        return counted(self.at(state, now), permits)

    def throttled(
        self,
        state: RateLimiterState,
        now: float,
        *,
        granted_at: float,
        retry_after_seconds: float | None,
        is_beyond: bool = False,
    ) -> RateLimiterState:
        """
        The provider answered 429 to a call with a permit granted at *granted_at*.

        *is_beyond*: it was sent although the limit was used up, so that its refusal does not show a lower limit.
        """
        state = self.at(state, now)
        now = state.at
        if retry_after_seconds:
            state = msgspec.structs.replace(state, shut_until=max(state.shut_until, now + retry_after_seconds))
        if is_beyond:
            return learned_limit.noted(state, now)
        return learned_limit.after_refusal(state, now, granted_at=granted_at)

    def limit(self, state: RateLimiterState) -> int:
        """Calls a minute, as of *state*."""
        return self._fixed if self._fixed is not None else int(state.limit + EPSILON)

    def at(self, state: RateLimiterState, now: float) -> RateLimiterState:
        """The state at *now*: old permits dropped, the limit grown. `at` never runs backwards."""
        if now < state.at - LARGEST_SLIP_SECONDS:
            state = shifted(state, now)
        now = max(now, state.at)
        second = math.floor(now)
        gone = min(second - state.second, WINDOW_SECONDS) if state.counts or state.samples else 0
        empty = (0,) * max(0, gone)
        state = msgspec.structs.replace(
            state,
            at=now,
            second=second,
            counts=(*state.counts, *empty)[-WINDOW_SECONDS:],
            reads=(*state.reads, *empty)[-WINDOW_SECONDS:],
            samples=(*state.samples, *empty)[-WINDOW_SECONDS:] if state.samples else (),
        )
        return learned_limit.grown(state, now)

    def _take_urgent(
        self, state: RateLimiterState, now: float, allowed: int, urgent: int
    ) -> tuple[RateLimiterState, int, int]:
        """The state, how many are granted, and how many of them although the limit is used up."""
        given = max(0, min(urgent, allowed - sum(state.counts)))
        beyond = 0
        if given < urgent and self._fixed is None and now >= state.urgent_from - EPSILON:
            beyond = 1
            state = msgspec.structs.replace(state, urgent_from=now + URGENT_SECONDS)
        return counted(state, given + beyond), given + beyond, beyond

    def _take_reads(
        self, state: RateLimiterState, now: float, limit: int, for_changes: int, reads: int
    ) -> tuple[RateLimiterState, int, float]:
        burst = max(1, limit // BURST_SHARE)
        # Spaced over the window, not the minute: a burst and what follows then fill their share without a pause.
        share = _read_share(state, limit)
        gap = WINDOW_SECONDS / max(1, share - burst)
        room = min(share - sum(state.reads), for_changes - sum(state.counts))
        # Even spacing with a burst: the next may be sent up to `burst` places before it is due.
        due = max(state.reads_from, now)
        in_step = max(0, burst - math.ceil((due - now) / gap - EPSILON))
        given = min(reads, room, in_step)
        if given:
            state = counted(msgspec.structs.replace(state, reads_from=due + given * gap), given, are_reads=True)
        if given == reads:
            return state, given, 0.0
        if room > given:
            return state, given, max(EPSILON, state.reads_from - now - (burst - 1) * gap)
        wait = self._wait_for_reads(state, limit, for_changes, now)
        return state, given, min(wait, max(EPSILON, state.kept_from - now)) if limit // KEPT_SHARE else wait

    def _take_kept(
        self, state: RateLimiterState, now: float, limit: int, reads: int
    ) -> tuple[RateLimiterState, int, float]:
        """Reads while changes wait: one at a time, evenly over the window, out of what is kept for them."""
        kept = limit // KEPT_SHARE
        if not kept:
            return state, 0, 0.0
        gap = WINDOW_SECONDS / kept
        due = max(state.kept_from, now)
        if due > now + EPSILON:
            return state, 0, due - now
        # Once they have had what is kept for them, they leave what is kept for stops and deletes.
        allowed = limit if sum(state.reads) < kept else limit - limit // URGENT_SHARE
        if sum(state.counts) >= allowed:
            return state, 0, _wait_for_room(state.counts, allowed, state.second, now)
        state = counted(msgspec.structs.replace(state, kept_from=due + gap), 1, are_reads=True)
        return state, 1, gap if reads > 1 else 0.0

    def _wait_for_reads(self, state: RateLimiterState, limit: int, for_changes: int, now: float) -> float:
        """Seconds until reads have room, by their own share and beside changes; 0: now."""
        return max(
            _wait_for_room(state.reads, _read_share(state, limit), state.second, now),
            _wait_for_room(state.counts, for_changes, state.second, now),
        )


def _read_share(state: RateLimiterState, limit: int) -> int:
    """Reads in one window at most: all but what is for changes and for stops and deletes, and at least half."""
    changes = sum(state.counts) - sum(state.reads)
    for_changes = max(limit // RESERVED_SHARE, math.ceil(changes * LEFT_TO_CHANGES))
    return max(1, limit // 2, limit - limit // URGENT_SHARE - for_changes)


def _wait_for_room(counts: tuple[int, ...], allowed: int, second: int, now: float) -> float:
    """Seconds until one more permit fits under *allowed*, which is at least 1; 0: now."""
    excess = sum(counts) - allowed + 1
    if excess <= 0:
        return 0.0
    oldest = second - len(counts) + 1
    place = next(place for place, gone in enumerate(accumulate(counts)) if gone >= excess)
    return max(EPSILON, oldest + place + WINDOW_SECONDS - now)


def _take_shared(
    state: RateLimiterState, allowed: int, changes: int, lookups: int
) -> tuple[RateLimiterState, int, int]:
    """Grant changes, then awaited lookups, up to *allowed*; each gets half if there is not room for both."""
    room = max(0, allowed - sum(state.counts))
    half = (room + state.lookup_turn) // 2
    granted_changes = min(changes, room - min(lookups, half))
    granted_lookups = min(lookups, room - granted_changes)
    if changes + lookups > room and room % 2:
        state = msgspec.structs.replace(state, lookup_turn=not state.lookup_turn)
    return counted(state, granted_changes + granted_lookups), granted_changes, granted_lookups
