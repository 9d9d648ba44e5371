"""What was seen of a soak, and what of it is trouble."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bench.figures import percentile

from support.soak.leases import LeaseReport

MOST_GROWTH = 1.05
SLACK_MEGABYTES = 5.0
"""Memory may breathe by so much between the middle and the last third of a run; a leak grows on."""
PATIENCE_SECONDS = 300.0
"""No job that could run waits longer."""
NOTICE_SECONDS = 300.0
"""A machine that vanished, and a create without effect or answer, are noticed and dealt with in this time."""
LAG_GROWTH = 1.5
LAG_SLACK_SECONDS = 3.0
"""The median readiness lag may be so much higher with leases than without: a listing more or less is chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large, how long, how little."""

    instances: int
    seconds: float
    calls_per_minute: int
    seed: int
    leases: int = 0
    """How many instances get a lease; then the same time is measured without leases first, to compare."""


@dataclass(kw_only=True)
class Report:
    """What was seen."""

    plan: Plan
    raised_in: float = 0.0
    asked: Counter[str] = field(default_factory=Counter[str])
    memory: list[float] = field(default_factory=list[float])
    """Megabytes of the service, sample by sample."""
    oldest_job_seconds: float = 0.0
    busiest_minute: int = 0
    throttled: int = 0
    looks: Counter[str] = field(default_factory=Counter[str])
    lags: list[float] = field(default_factory=list[float])
    """Of each new instance, seconds from running at the provider to ready here; with leases, of those since then."""
    lags_before: list[float] = field(default_factory=list[float])
    """The same of those before the leases."""
    leases: LeaseReport = field(default_factory=LeaseReport)
    waits: list[float] = field(default_factory=list[float])
    """Of each create and command, seconds from its acceptance to its effect."""
    vanished: float | None = None
    """Seconds until the machine that vanished was failed."""
    repeated: float | None = None
    """Seconds until the create whose call had no effect was ready."""
    settled_after: float = 0.0
    ends: Counter[str] = field(default_factory=Counter[str])
    events: int = 0
    trouble: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        middle, last = thirds(self.memory)
        return "\n".join(
            (
                f"{self.plan}",
                f"raised in {self.raised_in:.0f} s; asked {dict(self.asked)}; ends {dict(self.ends)}",
                f"memory, median: middle third {middle:.1f} MB, last {last:.1f} MB; most {max(self.memory):.1f} MB",
                f"provider calls, busiest minute: {self.busiest_minute}; throttled {self.throttled}",
                f"looks {dict(self.looks)}; oldest job that could run {self.oldest_job_seconds:.1f} s",
                f"readiness lag of {len(self.lags)}: {spread(self.lags)}",
                *self._of_leases(),
                f"asked until so, of {len(self.waits)}: {spread(self.waits)}",
                f"seconds until the vanished machine was failed: {shown(self.vanished)}",
                f"seconds until the create without effect was ready: {shown(self.repeated)}",
                f"at rest after {self.settled_after:.0f} s; {self.events} events",
                f"trouble: {self.trouble}",
            )
        )

    def _of_leases(self) -> list[str]:
        if not self.plan.leases:
            return []
        return [f"before the leases, of {len(self.lags_before)}: {spread(self.lags_before)}", str(self.leases)]


def of_budget(report: Report, limit: int) -> list[str]:
    """The provider never had more calls in a minute than it allows."""
    wrong = {
        f"{report.busiest_minute} calls in a minute, of {limit}": report.busiest_minute > limit,
        f"{report.throttled} calls were throttled": report.throttled > 0,
    }
    return [what for what, is_so in wrong.items() if is_so]


def of_memory(memory: list[float]) -> list[str]:
    """Memory is flat: the last third is no larger than the middle one."""
    middle, last = thirds(memory)
    return [f"memory grew from {middle:.1f} to {last:.1f} MB"] if last > middle * MOST_GROWTH + SLACK_MEGABYTES else []


def of_patience(report: Report) -> list[str]:
    """Nothing starves: no job waits for ever, everything asked for came to be, and nothing failed on its way."""
    asked = sum(count for what, count in report.asked.items() if "refused" not in what)
    wrong = {
        f"a job that could run waited {report.oldest_job_seconds:.0f} s": report.oldest_job_seconds > PATIENCE_SECONDS,
        f"{report.ends['failed']} failed": report.ends["failed"] > 1,  # the one that vanished
        "nothing was asked": asked == 0,
    }
    return [what for what, is_so in wrong.items() if is_so]


def of_losses(report: Report) -> list[str]:
    """The machine that vanished is noticed in time, and the create without effect is repeated."""
    took = {"the vanished machine": report.vanished, "the create without effect": report.repeated}
    return [
        f"{what}: {shown(seconds)}" for what, seconds in took.items() if seconds is None or seconds > NOTICE_SECONDS
    ]


def thirds(samples: list[float]) -> tuple[float, float]:
    """The medians of the middle and of the last third."""
    third = len(samples) // 3
    return statistics.median(samples[third : 2 * third]), statistics.median(samples[2 * third :])


def waits(events: list[dict[str, Any]], asked_at: dict[str, float], wanted: dict[str, str]) -> dict[str, float]:
    """How long each instance took, in seconds, from when it was last asked for something until it was so."""
    took: dict[str, float] = {}
    for event in events:
        instance_id, at = event["instanceId"], seconds_of(event["timestamp"])
        if (
            instance_id in asked_at
            and instance_id not in took
            and event["status"] == wanted[instance_id]
            and at >= asked_at[instance_id]
        ):
            took[instance_id] = at - asked_at[instance_id]
    return took


def shown(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f}"


def spread(values: list[float]) -> str:
    if not values:
        return "none"
    return "median {:.1f} s, p99 {:.1f} s, most {:.1f} s".format(*(percentile(values, at) for at in (0.5, 0.99, 1)))


def seconds_of(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def of_lags(report: Report) -> list[str]:
    """Leases do not delay what comes up."""
    if not report.lags or not report.lags_before:
        return []
    before, after = statistics.median(report.lags_before), statistics.median(report.lags)
    if after <= before * LAG_GROWTH + LAG_SLACK_SECONDS:
        return []
    return [f"the median readiness lag grew from {before:.1f} to {after:.1f} s with leases"]
