"""When the balance of the account is low: it lasts for less than a number of hours at the present cost. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from corral.domain.events import EventType, FleetEvent
from corral.domain.placement.pricing import usd, usd_text

ACCOUNT: Final = "account"
"""The subject of events about the account at the provider."""
AGAIN: Final = 2
"""How many times the hours it must last before it is reported again. Fewer, and a fleet of changing size is reported
again and again."""


def low_balance(micro_usd: int, hourly_micro_usd: int, hours: float, now: datetime) -> FleetEvent | None:
    """The event if *micro_usd* last for less than *hours* at that cost, which is above 0; else None."""
    left = max(0, micro_usd) / hourly_micro_usd
    if left >= hours:
        return None
    return FleetEvent(
        type=EventType.LOW_BALANCE,
        subject=ACCOUNT,
        reason=f"the account has {usd_text(micro_usd)}, which last for {left:.1f} hours"
        f" at {usd_text(hourly_micro_usd)} an hour",
        at=now,
        data={"balance": usd(micro_usd), "perHour": usd(hourly_micro_usd), "hoursLeft": round(left, 2)},
    )


def lasts_again(micro_usd: int, hourly_micro_usd: int, hours: float) -> bool:
    """Whether the balance lasts for so long that a low one is reported the next time."""
    return micro_usd >= AGAIN * hours * hourly_micro_usd
