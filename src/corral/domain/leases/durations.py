"""Durations as texts: as requests and settings write them ("1h30m"), and for people ("1 h 30 min"). Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = (
    ("d", "d", timedelta(days=1)),
    ("h", "h", timedelta(hours=1)),
    ("m", "min", timedelta(minutes=1)),
    ("s", "s", timedelta(seconds=1)),
)
DURATION_PATTERN: Final = "([0-9]{1,6}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?"
_DURATION: Final = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", re.ASCII)


def read_duration(value: object) -> timedelta:
    """The duration that a text such as 90s, 30m, 8h, 2d or 1h30m spells; raises ValueError for anything else."""
    written = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if written is None or not any(written.groups()):
        raise ValueError("must be a text such as 90s, 30m, 8h, 2d or 1h30m")
    parts = zip(written.groups(), _UNITS, strict=True)
    return sum((int(part or 0) * unit for part, (_, _, unit) in parts), timedelta(0))


def duration_text(duration: timedelta) -> str:
    """*duration* as requests write it, such as 1h30m; parts of a second are left out."""
    return "".join(f"{number}{short}" for number, short, _ in _parts(duration)) or "0s"


def spoken(duration: timedelta) -> str:
    """*duration* for a person, such as 1 h 30 min; parts of a second are left out."""
    return " ".join(f"{number} {long}" for number, _, long in _parts(duration)) or "0 s"


def _parts(duration: timedelta) -> list[tuple[int, str, str]]:
    """The numbers of days, hours, minutes and seconds in *duration* that are not 0, with both names of the unit."""
    found: list[tuple[int, str, str]] = []
    for short, long, unit in _UNITS:
        number, duration = divmod(duration, unit)
        if number:
            found.append((number, short, long))
    return found
