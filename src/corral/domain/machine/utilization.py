"""How busy a machine was: measurements in percent. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
"""How far outside the period a measurement may be: clocks differ. One further off is left out."""
LONGEST_AGO: Final = timedelta(days=366)
"""How far before the period a measurement may be that was not asked for. One that is older, or after the period, has a
bad time. Shorter, and a provider that sends all it has makes every machine unknown; longer, and a time in another unit
is taken for one long ago."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement, in percent."""

    at: datetime
    value: float


Series = tuple[Sample, ...]
"""Measurements in the order of their times; where the provider has none there is a gap."""
Reading = tuple[datetime | None, float | None]
"""The time and the value of one measurement as the provider sent it; None: it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What is not in the series of one signal although it was measured: the machine may have been busy then."""

    above: frozenset[datetime] = frozenset()
    """When a value was above 100."""
    unusable: frozenset[datetime] = frozenset()
    """When a value was no number, or below 0."""
    until: datetime | None = None
    """Up to here any time may have had other values as well; None: at no time."""


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
    gpu_left_out: LeftOut = LeftOut()
    """Of the average and of each GPU."""
    cpu_left_out: LeftOut = LeftOut()


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


def series(samples: Iterable[Reading], within: Period) -> Series:
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


def left_out(samples: Sequence[Reading], within: Period) -> LeftOut:
    """
    What `series` leaves out of *samples*, except what was measured before the period.

    A bad time may be any of the period. If there are too many times, all up to the newest that is not read are unknown.
    """
    earliest, latest = within.begin - TOLERANCE, within.end + TOLERANCE
    timed = [(at, value) for at, value in samples if at is not None and earliest <= at <= latest]
    times = sorted({at for at, _ in timed})
    read, unread = frozenset(times[-MOST_SAMPLES:]), times[:-MOST_SAMPLES][-1:]
    above = frozenset(at for at, value in timed if at in read and value is not None and value > HUNDRED)
    unusable = frozenset(at for at, value in timed if at in read and (value is None or not value >= 0))
    has_bad_time = any(at is None or not earliest - LONGEST_AGO <= at <= latest for at, _ in samples)
    until = latest if has_bad_time else max(unread, default=None)
    return LeftOut(above=above, unusable=unusable.union(unread), until=until)


def together(parts: Iterable[LeftOut]) -> LeftOut:
    """All that *parts* leave out."""
    every = list(parts)
    return LeftOut(
        above=frozenset[datetime]().union(*(one.above for one in every)),
        unusable=frozenset[datetime]().union(*(one.unusable for one in every)),
        until=max((one.until for one in every if one.until is not None), default=None),
    )


def newest(measured: Series) -> Sample | None:
    """The last measurement."""
    return measured[-1] if measured else None


def every_seconds(machines: int, *, calls_per_minute: int, share: float) -> int:
    """How often each of so many machines can be read with *share* of the calls a minute; at least a minute apart."""
    calls = max(1, math.floor(calls_per_minute * share))
    return math.ceil(max(LEAST_EVERY_SECONDS, machines * 60 / calls))
