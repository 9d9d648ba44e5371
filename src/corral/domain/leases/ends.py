"""When each cause ends a lease, and how that is said. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from corral.domain.instance import Instance
from corral.domain.leases.durations import spoken
from corral.domain.leases.lease import EndCause, Lease, LeaseState
from corral.domain.leases.schedule import next_end
from corral.domain.lifecycle.phases import UP, Goal, Phase
from corral.domain.observation.sighting import Sighting

SCHEDULE_GRACE: Final = timedelta(hours=1)
"""The longest notice of a scheduled stop, whose time is known anyway. Longer, and a schedule with short nights never
stops anything; shorter, and users have less time to extend it."""


def runs_since(instance: Instance) -> datetime | None:
    """
    Since when the time of its lease runs: since it was ready; None if it does not run, or was not ready yet.

    If it failed although its machine runs, which is billed, the time runs also if it never was ready.
    """
    if instance.goal is not Goal.RUNNING or instance.provider_id is None:
        return None
    if instance.phase is Phase.FAILED and instance.observation.sighting not in {Sighting.EXITED, Sighting.ABSENT}:
        return instance.ready_at or instance.started_at or instance.phase_since
    return instance.ready_at if instance.phase in UP else None


def fixed_ends(instance: Instance, state: LeaseState, now: datetime) -> list[tuple[datetime, EndCause]]:
    """When the maximum duration and the schedule end it, the earlier first; not before an extension is over."""
    since, lease, ends = runs_since(instance), state.lease, list[tuple[datetime, EndCause]]()
    if since is not None and lease.max_duration is not None:
        ends.append((not_before(state, since + lease.max_duration), EndCause.MAX_DURATION))
    if since is not None and lease.schedule is not None and instance.phase is Phase.READY:
        applied = state.scheduled_at or since
        end = next_end(lease.schedule, since=applied, now=now, not_before=state.extended_until)
        if end is not None:
            ends.append((end, EndCause.SCHEDULE))
    return sorted(ends, key=precedence)


def precedence(end: tuple[datetime, EndCause]) -> tuple[datetime, int]:
    """Sorts ends: the earlier first; at the same time the maximum duration, then the schedule, then the idle rule."""
    return end[0], list(EndCause).index(end[1])


def not_before(state: LeaseState, end: datetime) -> datetime:
    """*end*, or the end of the extension if that is later."""
    return max(end, state.extended_until or end)


def grace_of(lease: Lease, cause: EndCause) -> timedelta:
    """
    How long before its end a notice is given.

    Not longer than the maximum duration, which it would lengthen, and for a schedule at most an hour: else the next
    start could come before a stop that was noticed late.
    """
    most = {EndCause.MAX_DURATION: lease.max_duration, EndCause.SCHEDULE: SCHEDULE_GRACE}.get(cause)
    return lease.grace if most is None else min(lease.grace, most)


def fixed_reason(state: LeaseState, cause: EndCause, end: datetime) -> str:
    """Why the maximum duration or the schedule ends it at *end*, for a person."""
    lease = state.lease
    if cause is EndCause.MAX_DURATION and lease.max_duration is not None:
        reason = f"maximum duration of {spoken(lease.max_duration)}"
    else:
        reason = "" if lease.schedule is None else f"schedule {lease.schedule.stop} {lease.schedule.timezone}"
    return (
        f"{reason}, extended until {end.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if end == state.extended_until else reason
    )
