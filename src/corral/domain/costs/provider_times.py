"""
What the times that the provider gives say of the begin and the end of usage. Pure.

They are not documented, may be left out, and come from another clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from corral.domain.costs.usage import Bounds

PROVIDER_CLOCK: Final = timedelta(seconds=5)
"""By how much the provider's clock may differ. Smaller, and a bound taken from its times may exclude the truth; larger,
and bounds after an outage are wider by as much."""
LONGEST_AGO: Final = timedelta(days=3650)
"""An older time that the provider gives is no time of a machine."""
EFFECT_WITHIN: Final = timedelta(seconds=60)
"""How long after the time that the provider gives for a start or a stop its bill may begin or end: it does not say
whether that is the time of the call or of its effect. The cost of being wrong is as above."""
LISTED_WITHIN: Final = timedelta(minutes=2)
"""How long a machine that replaces another may be missing in listings. Shorter, and a bound may exclude the truth;
longer, and the bounds after every move are wider by as much."""


def plausible(at: datetime | None, now: datetime) -> datetime | None:
    """The time that the provider gives, unless it cannot be one of a machine that exists."""
    return at if at is not None and now - LONGEST_AGO <= at <= now + PROVIDER_CLOCK else None


def stop_bounds(stopped_at: datetime | None, now: datetime) -> Bounds:
    """What the provider's time of a stop says of the end of usage."""
    stop = plausible(stopped_at, now)
    if stop is None:
        return Bounds(by=now)
    return Bounds(by=now, floor=stop - PROVIDER_CLOCK, ceiling=stop + EFFECT_WITHIN)
