"""
Measurements as idle rules judge them: made of what the provider sent, and summarized for rules over a long time. Pure.

A summary says no more than what it is made of: the highest value counts for all of its time, one unknown value makes it
unknown, and it speaks for no more time than they do together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from corral.domain.leases.lease import IdleRule
from corral.domain.machine.utilization import HUNDRED, LEAST_INTERVAL, LeftOut, Period, Sample, Series, Utilization

MOST_DISTANCE: Final = timedelta(seconds=60)
"""The longest time that one measurement speaks for. Longer, and a gap counts as measured; shorter than the interval of
the measurements, and no instance ever counts as idle."""
MOST_STORED: Final = 1000
"""The most measurements or summaries in the window of a rule. More, and each judgement of a rule over days reads them
all; fewer, and the load of a moment counts for longer than it lasted."""
LEAST_PLAUSIBLE: Final = 1.0
"""Percent that at least one measure of a machine that runs exceeds: its image alone fills more of its disk. Lower, and
a provider that sends zeros for want of measurements, or shares of one instead of percent, makes a working machine look
idle; higher, and a machine with little on it never counts as idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSample:
    """Measurements of one instance at one instant, in percent; None is unknown. Or a summary of several."""

    at: datetime
    """Of a summary, the time of its newest."""
    gpu: float | None
    cpu: float | None
    """Of a summary the highest, and unknown if one is."""
    since: datetime | None = None
    """When the time that it summarizes began; None: it is no summary."""
    measured: timedelta = timedelta(0)
    """How much of that time the summarized ones speak for."""


def expected_distance(rule: IdleRule) -> timedelta:
    """How far apart an instance is measured, and the longest time that one measurement speaks for."""
    return min(max(rule.after / 10, LEAST_INTERVAL), MOST_DISTANCE)


def from_utilization(seen: Utilization, within: Period, *, gpus: int) -> list[IdleSample]:
    """
    The samples in *seen*, one for each interval of *within*: the busiest GPU, and unknown where a value is missing.

    Without values of each of the *gpus* of the machine the GPU is unknown, because neither the others nor an average
    show a busy one. An interval without a measure above `LEAST_PLAUSIBLE`, or in which no memory is in use, is unknown:
    its values are not measured. So is one with a value that cannot be used, whatever its others are. The newest
    interval is left out while it is incomplete, because its other values may not be published yet.
    """
    each_gpu = [_by_interval(one.gpu, within.interval) for one in seen.gpus]
    cpu, average, memory = (_by_interval(one, within.interval) for one in (seen.cpu, seen.gpu, seen.memory))
    others = (seen.gpu, seen.gpu_memory, seen.disk, *(one.gpu_memory for one in seen.gpus))
    every = [cpu, memory, *each_gpu, *(_by_interval(one, within.interval) for one in others)]
    gpu_doubts, cpu_doubts = (_Doubts.of(one, within.interval) for one in (seen.gpu_left_out, seen.cpu_left_out))
    samples: list[IdleSample] = []
    is_complete = True
    for place in sorted({place for one in (*every, gpu_doubts.times, cpu_doubts.times) for place in one}):
        found = [sample for one in every for sample in one.get(place, ())]
        is_real = any(sample.value > LEAST_PLAUSIBLE for sample in found)
        is_real = is_real and all(sample.value > 0 for sample in memory.get(place, ()))
        gpu, cpus = _highest([one.get(place) for one in each_gpu]), _highest([cpu.get(place)])
        if gpu is not None:
            highest = max([gpu, *(sample.value for sample in average.get(place, ()))])
            gpu = highest if len(each_gpu) >= gpus else None
        is_complete = not is_real or (gpu is not None and cpus is not None)
        is_complete = is_complete or gpu_doubts.about(place) or cpu_doubts.about(place)
        gpu, cpus = (gpu, cpus) if is_real else (None, None)
        at = max([*(sample.at for sample in found), *gpu_doubts.times.get(place, ()), *cpu_doubts.times.get(place, ())])
        samples.append(IdleSample(at=at, gpu=gpu_doubts.judged(place, gpu), cpu=cpu_doubts.judged(place, cpus)))
    return samples if is_complete else samples[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubts:
    """What the series of one signal leave out, by the numbers of the intervals."""

    times: Mapping[int, Sequence[datetime]]
    """Of all measurements with an unusable value or one above 100."""
    unknown: frozenset[int]
    until: float
    """Up to this interval all are unknown."""

    @classmethod
    def of(cls, left_out: LeftOut, interval: timedelta) -> _Doubts:
        times: dict[int, list[datetime]] = defaultdict(list)
        for at in left_out.above | left_out.unusable:
            times[_place(at, interval)].append(at)
        until = -math.inf if left_out.until is None else _place(left_out.until, interval)
        return cls(times=dict(times), unknown=frozenset(_place(at, interval) for at in left_out.unusable), until=until)

    def about(self, place: int) -> bool:
        """Whether something of this interval was left out."""
        return place <= self.until or place in self.times

    def judged(self, place: int, value: float | None) -> float | None:
        """The highest value of an interval in whose series it is *value*."""
        if place <= self.until or place in self.unknown:
            return None
        return HUNDRED if place in self.times else value


def _by_interval(series: Series, interval: timedelta) -> dict[int, list[Sample]]:
    """The measurements of *series* by the number of their interval."""
    found: dict[int, list[Sample]] = defaultdict(list)
    for sample in series:
        found[_place(sample.at, interval)].append(sample)
    return dict(found)


def _place(at: datetime, interval: timedelta) -> int:
    """The number of the interval that *at* is in."""
    return math.floor(at.timestamp() / interval.total_seconds())


def _highest(series: Sequence[Sequence[Sample] | None]) -> float | None:
    """The highest value of all *series*; None if there are none, or one has no value."""
    return max((sample.value for one in series for sample in one or ()), default=None) if all(series) else None


def stored_interval(rule: IdleRule) -> timedelta:
    """The time of one stored sample: the expected distance or, if that makes too many, that of a summary."""
    return max(expected_distance(rule), timedelta(seconds=math.ceil(rule.after.total_seconds() / MOST_STORED)))


def stored_begin(at: datetime, interval: timedelta) -> datetime:
    """When the interval that *at* is in began."""
    seconds = interval.total_seconds()
    return datetime.fromtimestamp(math.floor(at.timestamp() / seconds) * seconds, UTC)


def summarized(
    samples: Sequence[IdleSample], interval: timedelta, distance: timedelta, *, begin: datetime
) -> list[IdleSample]:
    """
    One summary of *samples*, in the order of time, for each interval; each sample speaks for *distance* at most.

    An interval that began before *begin* is left out, because not all of it is in *samples*.
    """
    groups: dict[datetime, list[IdleSample]] = defaultdict(list)
    for sample in samples:
        groups[stored_begin(sample.at, interval)].append(sample)
    found, last = list[IdleSample](), begin
    for since, group in groups.items():
        if since >= begin:
            found.append(_summary(group, since, spoken_for(group, distance, begin=last)))
        last = group[-1].at
    return found


def spoken_for(
    samples: Iterable[IdleSample], distance: timedelta, *, begin: datetime, end: datetime | None = None
) -> timedelta:
    """
    How much of the time from *begin* to *end* *samples*, in the order of time, speak for.

    Each speaks for the time since the one before it, and at most for *distance*: not for a gap. A summary speaks for
    what it is made of, and for nothing if some of that may be before *begin*.
    """
    measured, last = timedelta(0), begin
    for sample in samples:
        most = distance
        if sample.since is not None:
            most = sample.measured if sample.since - distance >= begin else timedelta(0)
        at = sample.at if end is None else min(sample.at, end)
        measured += max(timedelta(0), min(at - last, most))
        last = max(last, at)
    return measured


def _summary(samples: Sequence[IdleSample], since: datetime, measured: timedelta) -> IdleSample:
    return IdleSample(
        at=samples[-1].at,
        gpu=_known_peak([sample.gpu for sample in samples]),
        cpu=_known_peak([sample.cpu for sample in samples]),
        since=since,
        measured=measured,
    )


def _known_peak(found: Iterable[float | None]) -> float | None:
    """The highest of *found*; None if one of them is not known."""
    values = list(found)
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None
