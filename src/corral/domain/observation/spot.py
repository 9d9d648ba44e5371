"""
Spot machines that the provider takes back: notice, reclaim, end. Pure.

The provider's states are `running`, `notified`, `reclaiming` and `terminated`, in this order; its time of reclaim is
the deadline. Other states are kept and have no meaning here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corral.domain.observation.sighting import ProviderInstance

NOTICED: Final = frozenset({"notified", "reclaiming"})
"""The machine is about to be taken back."""
TAKEN: Final = frozenset({"reclaiming", "terminated"})
"""A machine that stops in this state was taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """What the provider says about the spot offer of an instance."""

    status: str
    """As the provider reports it."""
    reclaim_at: datetime | None = None
    """When the machine is taken back, as far as the provider says."""
    noticed_at: datetime | None = None
    """When the notice was first seen."""


def observed(known: Spot | None, seen: ProviderInstance, at: datetime) -> Spot | None:
    """The state of the spot offer after *seen* was observed; *known* itself if nothing changed."""
    if seen.spot_status is None:
        return known
    status = seen.spot_status.lower()
    noticed_at = None if known is None else known.noticed_at
    if status in NOTICED:
        noticed_at = noticed_at or at
    elif status not in TAKEN:
        noticed_at = None
    after = Spot(status=status, reclaim_at=seen.spot_reclaim_at, noticed_at=noticed_at)
    return known if after == known else after


def is_notice(spot: Spot | None, announced: Spot | None) -> bool:
    """Whether *spot* is a notice, or a change of one, that was not announced yet."""
    return spot is not None and spot.status in NOTICED and spot != announced


def is_taken(spot: Spot | None, at: datetime) -> bool:
    """Whether a machine that was seen stopped *at* this time was taken back by the provider."""
    if spot is None:
        return False
    expired = spot.status in NOTICED and spot.reclaim_at is not None and spot.reclaim_at <= at
    return spot.status in TAKEN or expired


def notice(spot: Spot) -> str:
    """The notice in words."""
    when = "soon" if spot.reclaim_at is None else f"at {spot.reclaim_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"the provider takes this spot machine back {when}: save what is on it"
