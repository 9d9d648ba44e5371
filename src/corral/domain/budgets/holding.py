"""How much is reserved for an instance, and until when. Pure."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

from corral.domain.budgets.reservation import Reservation
from corral.domain.costs.meter import FREE_DISK_GB
from corral.domain.costs.usage import DISK_PRICE
from corral.domain.instance import CreateRequest, Instance, Placement
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import Sighting

_OVER: Final = frozenset({Phase.EXITED, Phase.TERMINATED})
_DOWN: Final = frozenset({Sighting.ABSENT, Sighting.EXITED})


def held(instance: Instance) -> Reservation | None:
    """
    The reservation of *instance*; None once it is stopped or gone, or failed without a machine that runs.

    A function of the record alone: every writer of instances stores what it returns, so a reservation is released in
    the transaction that records its end, whatever process does that.
    """
    if instance.reservation is None or instance.phase in _OVER:
        return None
    has_failed = instance.phase is Phase.FAILED
    is_down = instance.provider_id is None or instance.observation.sighting in _DOWN
    return None if has_failed and is_down else instance.reservation


def reservation_for(request: CreateRequest, placement: Placement | None, hours: float, now: datetime) -> Reservation:
    """
    What is set aside for *hours* of an instance at *placement*, rounded up: rounding exceeds no limit.

    An unknown price counts as 0: what such a machine costs is counted once it runs.
    """
    hourly = 0 if placement is None else placement.micro_usd
    disk = max(0, request.rootfs_gb - FREE_DISK_GB) * DISK_PRICE / 24
    return Reservation(micro_usd=math.ceil((hourly + disk) * hours), at=now)
