"""Money set aside for an instance until it has cost as much, or cannot cost any more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What was set aside with a create or start."""

    micro_usd: int
    at: datetime
    """What the instance costs from then on is paid out of it."""
