"""
Whether an instance is idle, by its measurements. Pure.

It is idle only if measurements cover four fifths of the whole window, and in each of them every requested signal is
known and below its limit. What is not known counts as activity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from corral.domain.leases.durations import spoken
from corral.domain.leases.lease import IdleRule, Signal
from corral.domain.leases.samples import IdleSample, expected_distance, spoken_for

COVERED: Final = 0.8
"""The share of the window that must be measured. Less, and an instance that worked in a gap is stopped; more, and a few
lost measurements keep every idle instance running."""
MOST_LATE: Final = timedelta(seconds=60)
"""How late the provider publishes. The window ends with the newest measurement, and that is not older than this and two
distances, one of which may be missed. Shorter, and rules of a few minutes never find four fifths measured; longer, and
old measurements speak for the present."""


class Activity(Enum):
    """Whether an instance is used."""

    IDLE = auto()
    ACTIVE = auto()
    UNKNOWN = auto()


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
    measured = spoken_for(window, expected_distance(rule), begin=end - rule.after, end=end)
    if signals and not unknown and measured < COVERED * rule.after:
        unknown = f"measured for less than {COVERED:.0%} of {spoken(rule.after)}"
    return (Activity.UNKNOWN, unknown) if unknown else (Activity.IDLE, "")


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
