"""
Leases in a soak: half of the machines are quiet, some only seem to be, the others work.

What a machine does follows from the last character of its instance's id, so one control call sets the load of a class.
A machine that works, or of which nothing is known, must never be ended; a quiet one must be, once the samples that the
share allows can have shown it.
"""

from __future__ import annotations

import asyncio
import string
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from bench.provider import Provider
from bench.wire import Line

from support.soak.service import call

IN_FLIGHT = 16
SHARE = 0.2
"""`CORRAL_METRICS_SHARE`, as it is set by default."""
AFTER_SECONDS = (60, 300, 1800)
"""The idle rules, in turn."""
GRACE_SECONDS = 60
EVERY_TTL = 50
"""One of so many leases has a maximum duration instead of an idle rule."""
TTL_MINUTES = 6
"""The maximum durations are over in 1 to so many minutes, in turn, as if leases had been given at different times."""
SLACK_SECONDS = 180.0
"""From when an end is due to when the machine is seen stopped: a listing of ten thousand, and the stop itself."""
SHOWN_SECONDS = 60 + GRACE_SECONDS + 90 + SLACK_SECONDS
"""From a measurement that shows the end of the idle time: published, announced, measured once more, and stopped."""
CLASSES: Mapping[str, str] = {
    "quiet": string.digits + "abcdefgh",
    "zeros": "i",
    "stale": "j",
    "none": "k",
    "repeated": "l",
    "busy": "mnopqrstuvwxyz",
}
"""The last characters of ids, by what their machines do; those of "zeros" to "repeated" have wrong samples."""
QUIET_LOAD = {"gpu": 0, "gpuMemory": 1, "cpu": 2, "memory": 10, "disk": 10}


@dataclass(kw_only=True)
class LeaseReport:
    """What was seen of leases."""

    given: int = 0
    given_in: float = 0.0
    samples: int = 0
    """Calls for measurements since the leases were given."""
    share: float = 0.0
    """Of the calls that the limit allows in that time."""
    ended: Counter[str] = field(default_factory=Counter[str])
    """Instances that their lease ended, by what their machine does and why."""
    due: int = 0
    """Instances that should have ended by then."""
    sampled: int = 0
    """Quiet instances whose idle time is measured to its end and that are still ready: soon to be ended."""

    def __str__(self) -> str:
        return (
            f"{self.given} leases given in {self.given_in:.0f} s; {self.samples} samples, a share of {self.share:.3f}; "
            f"ended {dict(self.ended)}; {self.due} had to be, and {self.sampled} more are seen to be quiet"
        )


def kind_of(instance_id: str) -> str:
    """What the machine of an instance does."""
    return next(kind for kind, ends in CLASSES.items() if instance_id[-1] in ends)


def lease_of(number: int, ready_minutes: int) -> dict[str, Any]:
    """The lease of the instance with this number, which has been ready for so many minutes, rounded up."""
    grace = {"grace": f"{GRACE_SECONDS}s"}
    if number % EVERY_TTL == 0:
        return {"maxDuration": f"{ready_minutes + _minutes_left(number)}m", **grace}
    return {"idle": {"after": f"{AFTER_SECONDS[number % len(AFTER_SECONDS)] // 60}m"}, **grace}


def _minutes_left(number: int) -> int:
    return number // EVERY_TTL % TTL_MINUTES + 1


def due_within(number: int, instance_id: str, plan_leases: int, calls_per_minute: int) -> float | None:
    """
    In how many seconds the instance must have been ended; None: never.

    The samples of all leases are read in turn, as the share allows; it takes two of a quiet machine, one for the notice
    and one for the end.
    """
    if number % EVERY_TTL == 0:
        return 60.0 * (_minutes_left(number) + 1) + GRACE_SECONDS + SLACK_SECONDS
    if kind_of(instance_id) != "quiet":
        return None
    turn = 60.0 * plan_leases / (calls_per_minute * SHARE)
    return AFTER_SECONDS[number % len(AFTER_SECONDS)] + GRACE_SECONDS + 2 * turn + SLACK_SECONDS


async def set_loads(cloud: Provider) -> None:
    """Have the machines be quiet, or seem so, from now on; those without a load of their own work."""
    for kind, ends in CLASSES.items():
        if kind != "busy":
            wrong = {} if kind == "quiet" else {"samples": kind}
            await cloud.load(name=f"[{ends}]-[0-9]+$", **QUIET_LOAD, **wrong)


async def give(port: int, instance_ids: Iterable[str], ready_minutes: int) -> list[str]:
    """Give every instance its lease; returns what went wrong."""
    trouble: list[str] = []
    numbered = iter(enumerate(instance_ids))
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(_giver(port, numbered, ready_minutes, trouble))
    return trouble


async def _giver(port: int, numbered: Iterator[tuple[int, str]], ready_minutes: int, trouble: list[str]) -> None:
    async with Line(port) as line:
        for number, instance_id in numbered:
            body = msgspec.json.encode(lease_of(number, ready_minutes))
            status, reported = await call(line, "PATCH", f"/api/instances/{instance_id}/lease", body)
            if status != 200:
                trouble.append(f"the lease of {instance_id}: {status} {reported}")


def of_ends(
    report: LeaseReport,
    leased: list[str],
    found: Mapping[str, Mapping[str, Any]],
    changed: Container[str],
    *,
    calls_per_minute: int,
    seconds: float,
    measured: Mapping[str, float],
) -> list[str]:
    """
    Nothing that works was ended, and everything that had to be within *seconds* was; counts both in *report*.

    *measured* is how long ago the idle time of an instance was first measured to its end: a quiet one must end soon
    after that, also if not all leases were sampled yet.

    Users *changed* some meanwhile: a start begins the time of a lease again, so these need not have ended.
    """
    trouble: list[str] = []
    for number, instance_id in enumerate(leased):
        one = found[instance_id]
        ended_by = (one["lease"] or {}).get("endedBy")
        kind = kind_of(instance_id)
        has_ttl = number % EVERY_TTL == 0
        if ended_by is not None:
            report.ended[f"{kind}: {ended_by}"] += 1
        if ended_by == "idle" and kind != "quiet":
            trouble.append(f"{instance_id} was ended as idle, and its machine is {kind}")
        if ended_by == "max_duration" and not has_ttl:
            trouble.append(f"{instance_id} was ended for a maximum duration that it does not have")
        within = due_within(number, instance_id, len(leased), calls_per_minute)
        is_shown = kind == "quiet" and not has_ttl and measured.get(instance_id, 0.0) >= SHOWN_SECONDS
        is_due = ((within is not None and within <= seconds) or is_shown) and instance_id not in changed
        report.due += is_due
        report.sampled += kind == "quiet" and not has_ttl and instance_id in measured and one["status"] == "ready"
        if is_due and one["status"] == "ready":
            trouble.append(f"{instance_id} should have been ended and is ready")
    return trouble


def of_share(report: LeaseReport, *, calls_per_minute: int, seconds: float) -> list[str]:
    """Sampling keeps its share of the calls of any minute; *seconds* may begin and end within one."""
    report.share = report.samples / (calls_per_minute * seconds / 60)
    most = SHARE * calls_per_minute * (seconds / 60 + 1)
    return [f"sampling used {report.samples} calls, of {most:.0f}"] if report.samples > most else []
