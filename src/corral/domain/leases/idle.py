"""
Whether an instance is idle, by its measurements. Pure.

It is idle only if measurements cover four fifths of the whole window, and in each of them every requested signal is
known and below its limit. What is not known counts as activity.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from corral.domain.leases.durations import spoken
from corral.domain.leases.lease import IdleRule, Signal
from corral.domain.machine.utilization import LEAST_INTERVAL, Period, Sample, Series, Utilization

COVERED: Final = 0.8
"""The share of the window that must be measured. Less, and an instance that worked in a gap is stopped; more, and a few
lost measurements keep every idle instance running."""
MOST_DISTANCE: Final = timedelta(seconds=60)
"""The longest time that one measurement speaks for. Longer, and a gap counts as measured; shorter than the interval of
the measurements, and no instance ever counts as idle."""
MOST_LATE: Final = timedelta(seconds=60)
"""How late the provider publishes. The window ends with the newest measurement, and that is not older than this and two
distances, one of which may be missed. Shorter, and rules of a few minutes never find four fifths measured; longer, and
old measurements speak for the present."""

LEAST_PLAUSIBLE: Final = 1.0
"""Percent that at least one measure of a machine that runs exceeds: its image alone fills more of its disk. Lower, and
a provider that sends zeros for want of measurements, or shares of one instead of percent, makes a working machine look
idle; higher, and a machine with little on it never counts as idle."""


class Activity(Enum):
    """Whether an instance is used."""

    IDLE = auto()
    ACTIVE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSample:
    """Measurements of one instance at one instant, in percent; None is unknown."""

    at: datetime
    gpu: float | None
    cpu: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleJudgement:
    """Whether an instance is idle, why for a person, and since when it seems to be."""

    activity: Activity
    reason: str
    quiet_since: datetime | None = None
    """Since when all is below its limit; None: the last measurement is not, or is old."""
    gpu: float | None = None
    cpu: float | None = None
    """The highest values since then; None: not requested."""
    measured_at: datetime | None = None
    """The time of the newest measurement; None: it is old, or none is needed."""


def expected_distance(rule: IdleRule) -> timedelta:
    """How far apart an instance is measured, and the longest time that one measurement speaks for."""
    return min(max(rule.after / 10, LEAST_INTERVAL), MOST_DISTANCE)


def from_utilization(seen: Utilization, within: Period, *, gpus: int) -> list[IdleSample]:
    """
    The samples in *seen*, one for each interval of *within*: the busiest GPU, and unknown where a value is missing.

    Without values of each of the *gpus* of the machine the GPU is unknown, because neither the others nor an average
    show a busy one. An interval without a measure above `LEAST_PLAUSIBLE` is unknown. The newest interval is left out
    while it is incomplete, because its other values may not be published yet.
    """
    each_gpu = [_by_interval(one.gpu, within.interval) for one in seen.gpus]
    cpu, average = _by_interval(seen.cpu, within.interval), _by_interval(seen.gpu, within.interval)
    others = (seen.gpu, seen.gpu_memory, seen.memory, seen.disk, *(one.gpu_memory for one in seen.gpus))
    every = [cpu, *each_gpu, *(_by_interval(one, within.interval) for one in others)]
    samples: list[IdleSample] = []
    is_complete = True
    for place in sorted({place for one in every for place in one}):
        found = [sample for one in every for sample in one.get(place, ())]
        is_real = any(sample.value > LEAST_PLAUSIBLE for sample in found)
        gpu, cpus = _highest([one.get(place) for one in each_gpu]), _highest([cpu.get(place)])
        if gpu is not None:
            highest = max([gpu, *(sample.value for sample in average.get(place, ()))])
            gpu = highest if len(each_gpu) >= gpus else None
        is_complete = not is_real or (gpu is not None and cpus is not None)
        at = max(sample.at for sample in found)
        samples.append(IdleSample(at=at, gpu=gpu if is_real else None, cpu=cpus if is_real else None))
    return samples if is_complete else samples[:-1]


def _by_interval(series: Series, interval: timedelta) -> dict[int, list[Sample]]:
    """The measurements of *series* by the number of their interval."""
    found: dict[int, list[Sample]] = defaultdict(list)
    for sample in series:
        found[math.floor(sample.at.timestamp() / interval.total_seconds())].append(sample)
    return dict(found)


def _highest(series: Sequence[Sequence[Sample] | None]) -> float | None:
    """The highest value of all *series*; None if there are none, or one has no value."""
    return max((sample.value for one in series for sample in one or ()), default=None) if all(series) else None


def judge_idle(
    rule: IdleRule,
    samples: Iterable[IdleSample],
    *,
    now: datetime,
    ready_at: datetime,
    last_used_at: datetime | None,
    most_late: timedelta = MOST_LATE,
) -> IdleJudgement:
    """
    Judge the window of `rule.after` that ends with the newest sample, which is not idle if that is old.

    A use, if that signal is requested, and the start of the instance must be before the window as well.
    """
    signals = [signal for signal in (Signal.GPU, Signal.CPU) if signal in rule.signals]
    known = sorted((sample for sample in samples if signals), key=lambda sample: sample.at)
    is_fresh = bool(known) and now - known[-1].at <= most_late + 2 * expected_distance(rule)
    end = min(known[-1].at, now) if is_fresh else now
    window = [sample for sample in known if sample.at > end - rule.after]
    used_at = last_used_at if Signal.LAST_USED in rule.signals else None
    loud = [sample for sample in window if not _is_quiet(sample, rule, signals)]
    quiet = [sample for sample in window if not loud or sample.at > loud[-1].at]
    begin = loud[-1].at if loud else end - rule.after
    seems_quiet = not signals or (is_fresh and bool(quiet))
    gpu, cpu = (_peak(quiet, signal) if signal in signals else None for signal in (Signal.GPU, Signal.CPU))
    activity, reason = _judged(rule, window, signals, end=end, now=now, ready_at=ready_at, used_at=used_at)
    if signals and not is_fresh and activity is Activity.IDLE:
        activity, reason = Activity.UNKNOWN, "not measured lately"
    if activity is Activity.IDLE:
        reason = f"{measures(gpu, cpu)} for {spoken(rule.after)}"
    quiet_since = max(begin, ready_at, used_at or ready_at) if seems_quiet else None
    measured_at = end if is_fresh else None
    return IdleJudgement(
        activity=activity, reason=reason, quiet_since=quiet_since, gpu=gpu, cpu=cpu, measured_at=measured_at
    )


def measures(gpu: float | None, cpu: float | None) -> str:
    """Such as "GPU 0 %, CPU 2 %"; values are rounded down, so that one below a limit does not look like it."""
    named = (("GPU", gpu), ("CPU", cpu))
    return ", ".join(f"{name} {math.floor(value)} %" for name, value in named if value is not None) or "not used"


def _judged(
    rule: IdleRule,
    window: Sequence[IdleSample],
    signals: Sequence[Signal],
    *,
    end: datetime,
    now: datetime,
    ready_at: datetime,
    used_at: datetime | None,
) -> tuple[Activity, str]:
    """The judgement and, unless it is idle, why not."""
    if used_at is not None and used_at > now - rule.after:
        return Activity.ACTIVE, f"used within {spoken(rule.after)}"
    unknown = ""
    for sample in window:
        for signal in signals:
            value = _value(sample, signal)
            if value is None:
                unknown = f"{signal.upper()} unknown"
            elif not value < _limit(rule, signal):
                return Activity.ACTIVE, f"{signal.upper()} {math.floor(value)} %"
    if ready_at > end - rule.after:
        return Activity.UNKNOWN, f"ready for less than {spoken(rule.after)}"
    if signals and not unknown and _measured(rule, window, end) < COVERED * rule.after:
        unknown = f"measured for less than {COVERED:.0%} of {spoken(rule.after)}"
    return (Activity.UNKNOWN, unknown) if unknown else (Activity.IDLE, "")


def _measured(rule: IdleRule, window: Sequence[IdleSample], end: datetime) -> timedelta:
    """
    How much of the time until *end* the samples of *window*, in the order of time, speak for.

    Each speaks for the time since the one before it, and at most for the expected distance: not for a gap.
    """
    measured, last = timedelta(0), end - rule.after
    for sample in window:
        at = min(sample.at, end)
        measured += min(at - last, expected_distance(rule))
        last = at
    return measured


def _is_quiet(sample: IdleSample, rule: IdleRule, signals: Iterable[Signal]) -> bool:
    """Whether every signal of *sample* is known and below its limit."""
    values = [(_value(sample, signal), _limit(rule, signal)) for signal in signals]
    return all(value is not None and value < limit for value, limit in values)


def _peak(samples: Iterable[IdleSample], signal: Signal) -> float | None:
    return max((value for sample in samples if (value := _value(sample, signal)) is not None), default=None)


def _value(sample: IdleSample, signal: Signal) -> float | None:
    return sample.gpu if signal is Signal.GPU else sample.cpu


def _limit(rule: IdleRule, signal: Signal) -> float:
    return rule.gpu_below if signal is Signal.GPU else rule.cpu_below
