"""
Leases as responses show them: what was requested, and what follows from it.

Clients keep a response while nothing changes, so no text here counts minutes: it names the instant from which they
count, and clients count.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.instance import Instance
from corral.domain.leases.durations import duration_text
from corral.domain.leases.lease import EndAction, EndCause, IdleRule, Lease, LeaseState, Schedule, Signal
from corral.domain.leases.outlook import expected_end, next_start
from corral.domain.lifecycle.phases import Phase
from corral.domain.timing import iso

EndsAt = Annotated[str | None, Meta(description="When its lease ends it, as known now; null: nothing will.")]
EndsBecause = Annotated[EndCause | None, Meta(description="Which part of its lease ends it then.")]
EndsReason = Annotated[str | None, Meta(description="The same, for people.")]
NotifiedAt = Annotated[str | None, Meta(description="When notice of that was given; null: none was yet.")]


class IdleLimits(msgspec.Struct, rename="camel"):
    """When it counts as idle."""

    after: Annotated[str, Meta(description="How long every signal must be below its limit, such as `30m`.")]
    gpu_below: Annotated[float, Meta(description="Percent of the busiest GPU.")]
    cpu_below: Annotated[float, Meta(description="Percent of the CPUs.")]
    signals: Annotated[list[Signal], Meta(description="What is looked at; one that is not known counts as activity.")]


class LeaseSchedule(msgspec.Struct):
    """When it is stopped and started, as cron expressions of five fields."""

    stop: Annotated[str | None, Meta(description="When it is stopped; null: never.")]
    start: Annotated[
        str | None,
        Meta(description="When it is started, if the schedule or its idleness had stopped it; null: never."),
    ]
    timezone: Annotated[str, Meta(description="The IANA time zone of both.")]


class RequestedLease(msgspec.Struct, rename="camel"):
    """A lease as requests write it."""

    max_duration: Annotated[str | None, Meta(description="Counted from when it became ready; null: no limit.")]
    idle: Annotated[IdleLimits | None, Meta(description="When it counts as idle; null: never.")]
    schedule: Annotated[LeaseSchedule | None, Meta(description="Times of day; null: none.")]
    on_end: Annotated[EndAction, Meta(description="What the maximum duration and idleness do; a schedule stops.")]
    grace: Annotated[str, Meta(description="The least time between the notice and the end.")]


class QuietTime(msgspec.Struct, rename="camel"):
    """Since when every signal is below its limit."""

    since: Annotated[str, Meta(description="It counts as idle `after` this, if nothing changes.")]
    after: Annotated[str, Meta(description="How long it must be quiet, as in the lease.")]
    gpu: Annotated[float | None, Meta(description="The highest use of a GPU since then, in percent; null: unused.")]
    cpu: Annotated[float | None, Meta(description="The highest use of the CPUs since then, in percent; null: unused.")]
    judged_at: Annotated[str, Meta(description="When it was last judged.")]


Quiet = Annotated[
    QuietTime | None, Meta(description="While every signal is below its limit and no notice was given yet.")
]


class LeaseDetails(RequestedLease, rename="camel"):
    """A lease, and what follows from it."""

    ends_at: EndsAt
    ends_because: EndsBecause
    reason: EndsReason
    notified_at: NotifiedAt
    extended_until: Annotated[str | None, Meta(description="Nothing ends it before this.")]
    last_used_at: Annotated[str | None, Meta(description="The last use that a client reported.")]
    starts_at: Annotated[str | None, Meta(description="When its schedule starts it again, if that stopped it.")]
    ended_by: Annotated[
        EndCause | None, Meta(description="Which part of the lease stopped it; null: it did not, or it was started.")
    ]
    quiet: Quiet


def requested_lease(lease: Lease) -> RequestedLease:
    """*lease* in a form that can be sent again; what is null in it stays none."""
    return RequestedLease(
        max_duration=None if lease.max_duration is None else duration_text(lease.max_duration),
        idle=None if lease.idle is None else _idle(lease.idle),
        schedule=None if lease.schedule is None else _schedule(lease.schedule),
        on_end=lease.on_end,
        grace=duration_text(lease.grace),
    )


def lease_details(instance: Instance, now: datetime) -> LeaseDetails | None:
    """The lease of *instance* as it is at *now*; None if it has none."""
    state = instance.lease
    if state is None or state.lease.is_empty:
        return None
    requested, expected = requested_lease(state.lease), expected_end(instance, now)
    return LeaseDetails(
        max_duration=requested.max_duration,
        idle=requested.idle,
        schedule=requested.schedule,
        on_end=requested.on_end,
        grace=requested.grace,
        ends_at=None if expected is None else iso(expected.ends_at),
        ends_because=None if expected is None else expected.cause,
        reason=None if expected is None else expected.reason,
        notified_at=None if state.notice is None else iso(state.notice.given_at),
        extended_until=iso(state.extended_until),
        last_used_at=iso(state.last_used_at),
        starts_at=iso(next_start(instance, now)),
        ended_by=state.ended_by,
        quiet=_quiet(instance, state),
    )


def _idle(rule: IdleRule) -> IdleLimits:
    return IdleLimits(
        after=duration_text(rule.after),
        gpu_below=rule.gpu_below,
        cpu_below=rule.cpu_below,
        signals=[signal for signal in Signal if signal in rule.signals],
    )


def _schedule(schedule: Schedule) -> LeaseSchedule:
    return LeaseSchedule(stop=schedule.stop, start=schedule.start, timezone=schedule.timezone)


def _quiet(instance: Instance, state: LeaseState) -> QuietTime | None:
    rule, seen = state.lease.idle, state.idle
    if rule is None or seen is None or state.notice is not None or instance.phase is not Phase.READY:
        return None
    return QuietTime(
        since=iso(seen.quiet_since),
        after=duration_text(rule.after),
        gpu=seen.gpu,
        cpu=seen.cpu,
        judged_at=iso(seen.judged_at),
    )
