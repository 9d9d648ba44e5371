"""How busy a machine was: measurements in percent. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

HUNDRED: Final = 100.0
LEAST_EVERY_SECONDS: Final = 60.0
"""The shortest time between two reads of one machine of the fleet: the provider is about a minute late. Shorter costs
calls and shows nothing new; longer shows old values."""
LEAST_INTERVAL: Final = timedelta(seconds=15)
"""Between two measurements: the provider has no finer ones."""
POINTS: Final = 240
"""Measurements of one series at most. Fewer shows steps in a plot; more only costs bytes."""
MOST_SAMPLES: Final = 2 * POINTS
"""That are read of one series, if the provider sends more than it was asked for."""
MOST_GPUS: Final = 16
TOLERANCE: Final = timedelta(minutes=10)
"""How far outside the period a measurement may be: clocks differ. One further off has a bad time."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement, in percent."""

    at: datetime
    value: float


Series = tuple[Sample, ...]
"""Measurements in the order of their times; where the provider has none there is a gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUtilization:
    """One GPU of a machine."""

    id: str
    gpu: Series
    gpu_memory: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """One machine over a period; `gpu` and `gpu_memory` are the averages of its GPUs."""

    gpu: Series = ()
    gpu_memory: Series = ()
    cpu: Series = ()
    memory: Series = ()
    disk: Series = ()
    gpus: tuple[GpuUtilization, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period and the time between two measurements in it."""

    begin: datetime
    end: datetime
    interval: timedelta


def period(now: datetime, length: timedelta) -> Period:
    """The last *length* before *now*, with at most `POINTS` measurements, at whole multiples of the interval."""
    seconds = max(LEAST_INTERVAL.total_seconds(), -(-length.total_seconds() // POINTS))
    end = now - timedelta(seconds=now.timestamp() % seconds)
    return Period(begin=end - length, end=end, interval=timedelta(seconds=seconds))


def series(samples: Iterable[tuple[datetime | None, float | None]], within: Period) -> Series:
    """
    The usable measurements of *samples*, in order; of several of one instant the highest.

    One without a time, outside the period, without a number or outside 0 to 100 is left out, so that a gap remains.
    """
    earliest, latest = within.begin - TOLERANCE, within.end + TOLERANCE
    found: dict[datetime, float] = {}
    for at, value in samples:
        if at is not None and value is not None and earliest <= at <= latest and 0 <= value <= HUNDRED:
            found[at] = max(value, found.get(at, value))
    return tuple(Sample(at, found[at]) for at in sorted(found)[-MOST_SAMPLES:])


def newest(measured: Series) -> Sample | None:
    """The last measurement."""
    return measured[-1] if measured else None


def every_seconds(machines: int, *, calls_per_minute: int, share: float) -> int:
    """How often each of so many machines can be read with *share* of the calls a minute; at least a minute apart."""
    calls = max(1, math.floor(calls_per_minute * share))
    return math.ceil(max(LEAST_EVERY_SECONDS, machines * 60 / calls))
