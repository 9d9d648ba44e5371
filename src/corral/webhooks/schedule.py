"""The meaning of a receiver's status, and the pauses between attempts. Pure."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from corral.domain.timing import delay, jittered

MOST_TRIES = 8

FIRST_PAUSE_SECONDS = 5.0
PAUSE_GROWTH = 3.0
LONGEST_PAUSE_SECONDS = 1800.0
"""5 s, 15 s, 45 s, 2 min, 7 min, 20 min, 30 min: 60 min in all. The first pauses cover a restart of the receiver, the
last ones an outage. Shorter in all, and an outage of an hour loses events; longer, and later events of the same
instance wait behind a receiver that is gone."""

SPREAD = 0.2
"""Share by which pauses vary, so that the events of an outage are not all retried in the same second."""

LONGEST_RETRY_AFTER = timedelta(hours=1)
"""How long a receiver may ask us to wait (`Retry-After`); more would exceed the time of the whole delivery."""

_PATIENCE_STATUSES = (408, 425, 429)
_GONE = 410


class AttemptOutcome(StrEnum):
    """The result of an attempt for its delivery."""

    DELIVERED = "delivered"
    STOP = "stop"
    """The receiver asks for no more messages."""
    FINAL = "final"
    """The receiver will never accept this message."""
    RETRY = "retry"


def outcome_of(status: int) -> AttemptOutcome:
    """What a receiver's *status* means."""
    if 200 <= status <= 299:  # noqa: PLR2004  # the class of the status is its first digit
        return AttemptOutcome.DELIVERED
    if status == _GONE:
        return AttemptOutcome.STOP
    if 400 <= status <= 499 and status not in _PATIENCE_STATUSES:  # noqa: PLR2004
        return AttemptOutcome.FINAL
    return AttemptOutcome.RETRY


def next_delay(attempt: int, *, jitter: float, retry_after: timedelta | None = None) -> timedelta | None:
    """
    How long to wait after attempt number *attempt*, the first being 1; None when it was the last.

    *jitter* in [0, 1) varies the pause; *retry_after* is what the receiver asked for, up to an hour.
    """
    if attempt >= MOST_TRIES:
        return None
    pause = delay(attempt, first=FIRST_PAUSE_SECONDS, most=LONGEST_PAUSE_SECONDS, factor=PAUSE_GROWTH)
    ours = timedelta(seconds=jittered(pause, spread=SPREAD, jitter=jitter))
    return max(ours, min(retry_after or timedelta(0), LONGEST_RETRY_AFTER))
