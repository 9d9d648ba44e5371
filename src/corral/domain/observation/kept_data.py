"""
The data of a stopped machine, which the provider keeps for some days and then purges. Pure.

The provider's date is undocumented, so it counts only while the machine is seen stopped, and a listing that leaves it
out does not remove it. Users are warned 48 and 6 hours before, each once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.observation.sighting import ProviderInstance, Sighting

WARNINGS: Final = (timedelta(hours=48), timedelta(hours=6))
"""How long before the purge users are warned. Longer, and the warning comes so early that it is
put aside; shorter, and a weekend is enough to miss it."""
SAME_DATE: Final = timedelta(minutes=10)
"""Dates that differ by less are the same. Smaller, and a provider that counts from the present instant causes a write
at every listing; larger, and an earlier date is announced late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataNotice:
    """A warning that was given."""

    until: datetime
    """The date that it named."""
    stage: timedelta
    """Which of `WARNINGS` it was."""


def observed(known: datetime | None, seen: ProviderInstance, *, was_stopped: bool) -> datetime | None:
    """Until when the data is kept after *seen* was observed; *known* is what was recorded before."""
    if seen.sighting is not Sighting.EXITED:
        return None
    before, after = known if was_stopped else None, seen.data_kept_until
    if after is None or (before is not None and abs(after - before) < SAME_DATE):
        return before
    return after


def due(until: datetime, given: DataNotice | None, now: datetime) -> DataNotice | None:
    """
    The warning to give *now*; None if none is due.

    Of two that fell due in an outage only the later is given. Another date is announced again only if it is earlier.
    Once the date is over there is nothing left to warn of.
    """
    stages = [stage for stage in WARNINGS if until - stage <= now]
    if not stages or now >= until:
        return None
    is_new = given is None or until < given.until or stages[-1] < given.stage
    return DataNotice(until=until, stage=stages[-1]) if is_new else None


def next_at(until: datetime, given: DataNotice | None, now: datetime) -> datetime | None:
    """When the next warning after *given* is due; None if none follows."""
    if due(until, given, now) is not None:
        return now
    later = [until - stage for stage in WARNINGS if given is None or stage < given.stage]
    return min((at for at in later if at > now), default=None)


def warning(notice: DataNotice, now: datetime) -> str:
    """The warning in words."""
    hours = (notice.until - now) / timedelta(hours=1)
    left = f"{hours:.0f} h" if hours >= 1 else f"{hours * 60:.0f} min"
    return (
        f"the provider purges the data of this stopped machine at {notice.until:%Y-%m-%d %H:%M} UTC, in {left}: "
        "start it to keep the data"
    )
