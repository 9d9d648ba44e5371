"""
The limit of calls a minute that is learned from the provider's answers (`auto`). Pure.

It begins at 300 and stays between 30 and 3,000. Until the first 429 it doubles every ten seconds in which calls had to
wait. A 429 sets it to what the provider admitted in the last minute, if that may be the provider's limit; then it does
not grow for ten minutes. Otherwise a 429 halves it, once for all calls that were under way. It grows by a tenth with
each minute without a 429. A 429 to a stop or delete that was sent although the limit was used up does not lower it.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from corral.cloud.rate_limit.state import EPSILON, WINDOW_SECONDS, RateLimiterState

LEAST_LIMIT: Final = 30.0
MOST_LIMIT: Final = 3000.0
GROWTH: Final = 1.1
GROWTH_SECONDS: Final = 60.0
DOUBLING_SECONDS: Final = 10.0
"""
How long calls must be short, before any 429, until `auto` doubles. Shorter than a call takes, and several doublings
happen before the first 429 arrives; longer, and a provider that admits more is found late.
"""
FIRST_MEASURED_SHARE: Final = 4
MEASURED_SHARE: Final = 2
"""
What was admitted in the last minute is taken for the provider's limit if it is at least this part of ours: one in four
before the first refusal, then one in two.

A larger part, and a limit far below the estimate takes more refusals to find; a smaller one, and a 429 after a quiet
minute, which has another cause, makes Corral slow.
"""
MEASURED_SECONDS: Final = 600.0
"""
How long a measured limit does not grow. Shorter, and calls are refused whenever it is tried again; longer, and a limit
that was raised is noticed late.
"""
MOST_REFUSED: Final = 200
"""Refusals of the last minute that are remembered; one call in flight each."""


def grown(state: RateLimiterState, now: float) -> RateLimiterState:
    """The state at *now*: refusals older than the window dropped, the limit grown."""
    grown_at = state.grown_at or now
    minutes = max(0, math.floor((now - grown_at + EPSILON) / GROWTH_SECONDS))
    return msgspec.structs.replace(
        state,
        # The exponent is bounded because a hundred minutes reach the limit from anywhere.
        limit=min(MOST_LIMIT, state.limit * GROWTH ** min(minutes, 100)),
        grown_at=grown_at + minutes * GROWTH_SECONDS,
        refused=tuple(each for each in state.refused if now - each < WINDOW_SECONDS),
    )


def when_short(state: RateLimiterState, now: float, wait: float) -> tuple[RateLimiterState, float]:
    """The state when calls must *wait*, and the wait: the limit doubles if calls were short and none was refused."""
    if state.halved_at or state.limit >= MOST_LIMIT:
        return state, wait
    if not state.short_since or now - state.short_since > 2 * DOUBLING_SECONDS:  # they were not short meanwhile
        state = msgspec.structs.replace(state, short_since=now)
    left = state.short_since + DOUBLING_SECONDS - now
    if left > EPSILON:
        return state, min(wait, left)
    return msgspec.structs.replace(state, limit=min(MOST_LIMIT, state.limit * 2), short_since=now), EPSILON


def noted(state: RateLimiterState, now: float) -> RateLimiterState:
    """The state after a 429 that does not change the limit; a minute without one begins."""
    refused = (*state.refused, math.floor(now))[-MOST_REFUSED:]
    return msgspec.structs.replace(state, refused=refused, grown_at=max(now, state.grown_at))


def after_refusal(state: RateLimiterState, now: float, *, granted_at: float) -> RateLimiterState:
    """The state after a 429 to a call whose permit was granted at *granted_at*."""
    state = noted(state, now)
    admitted = sum(state.counts) - len(state.refused)
    enough = state.limit / (MEASURED_SHARE if state.halved_at else FIRST_MEASURED_SHARE)
    is_new = granted_at >= state.halved_at
    halved_at = now + EPSILON if is_new else state.halved_at
    if enough <= admitted < state.limit:
        measured = max(LEAST_LIMIT, admitted)
        return msgspec.structs.replace(state, limit=measured, halved_at=halved_at, grown_at=now + MEASURED_SECONDS)
    if not is_new:  # a call that was under way at the last halving is no new evidence
        return state
    return msgspec.structs.replace(state, limit=max(LEAST_LIMIT, state.limit / 2), halved_at=halved_at, grown_at=now)
