"""The state of the rate limit that all processes share, and how it is stored."""

from __future__ import annotations

import math
from typing import Final

import msgspec

FIRST_LIMIT: Final = 300.0
WINDOW_SECONDS: Final = 62
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
    reads: tuple[int, ...] = ()
    """Those of them that were for reads, as many seconds as `counts` or fewer."""
    samples: tuple[int, ...] = ()
    """Those of the reads that were measurements of machines, in each second as `counts`."""
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
    short_since: float = 0.0
    """When calls were first short, or since when they were after the last doubling."""
    refused: tuple[int, ...] = ()
    """The seconds of the last minute in which the provider refused a call."""
    lookup_turn: bool = False
    """Whether the odd permit goes to an awaited lookup."""


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


def counted(state: RateLimiterState, permits: int, *, are_reads: bool = False) -> RateLimiterState:
    """The state after so many more *permits*."""
    if permits <= 0:
        return state
    counts, reads = state.counts or (0,), state.reads or (0,)
    return msgspec.structs.replace(
        state,
        counts=(*counts[:-1], counts[-1] + permits),
        reads=(*reads[:-1], reads[-1] + permits) if are_reads else reads,
    )


def shifted(state: RateLimiterState, now: float) -> RateLimiterState:
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
        halved_at=state.halved_at + by if state.halved_at else 0.0,
        grown_at=state.grown_at + by if state.grown_at else 0.0,
        short_since=state.short_since + by if state.short_since else 0.0,
        refused=tuple(math.floor(each + by) for each in state.refused),
    )
