"""Timestamps as ISO 8601 in UTC with milliseconds and `Z`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def iso(instant: datetime) -> str: ...
@overload
def iso(instant: None) -> None: ...
def iso(instant: datetime | None) -> str | None:
    """*instant* as responses and webhooks write it; None for None."""
    if instant is None:
        return None
    in_utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return in_utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
