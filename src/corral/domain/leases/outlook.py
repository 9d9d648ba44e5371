"""What is to be expected of a lease: when it ends the instance and why, and when it starts it. Pure, for the views."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from corral.domain.instance import Instance
from corral.domain.leases import schedule
from corral.domain.leases.durations import spoken
from corral.domain.leases.ends import fixed_ends, fixed_reason, not_before, precedence, runs_since
from corral.domain.leases.idle import measures
from corral.domain.leases.lease import EndCause, IdleSummary, LeaseState, Signal
from corral.domain.lifecycle.phases import Goal, Phase

STARTED_AGAIN: Final = frozenset({EndCause.SCHEDULE, EndCause.IDLE})
"""The ends after which a schedule starts an instance again; the end of the maximum duration is meant to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEnd:
    """When the lease ends an instance and why, for a person; the text has nothing that changes as time passes."""

    cause: EndCause
    ends_at: datetime
    reason: str


def expected_end(instance: Instance, now: datetime) -> ExpectedEnd | None:
    """The end that a notice announces, else the earliest that is known; None if nothing is known to end it."""
    state = instance.lease
    if state is None:
        return None
    if state.notice is not None:
        notice = state.notice
        return ExpectedEnd(cause=notice.cause, ends_at=notice.ends_at, reason=notice.reason)
    ends = fixed_ends(instance, state, now)
    quiet, rule = _quiet(instance, state, now), state.lease.idle
    if quiet is not None and rule is not None:
        ends.append((not_before(state, quiet.quiet_since + rule.after + state.lease.grace), EndCause.IDLE))
    if not ends:
        return None
    ends_at, cause = min(ends, key=precedence)
    reason = fixed_reason(state, cause, ends_at)
    if cause is EndCause.IDLE and quiet is not None and rule is not None:
        since = quiet.quiet_since.astimezone(UTC)
        reason = f"{measures(quiet.gpu, quiet.cpu)} since {since:%H:%M} UTC; idle after {spoken(rule.after)}"
    return ExpectedEnd(cause=cause, ends_at=ends_at, reason=reason)


def next_start(instance: Instance, now: datetime) -> datetime | None:
    """When its schedule starts an instance that its lease stopped; a time in the past is due now. None: it does not."""
    state = instance.lease
    if state is None or state.lease.schedule is None or state.ended_by not in STARTED_AGAIN:
        return None
    if instance.goal is not Goal.STOPPED or instance.phase not in {Phase.STOPPING, Phase.EXITED}:
        return None
    return schedule.next_start(state.lease.schedule, since=state.scheduled_at or instance.phase_since, now=now)


def _quiet(instance: Instance, state: LeaseState, now: datetime) -> IdleSummary | None:
    """Since when a ready instance is quiet; without measurements, since it was last used. None: it is not."""
    rule, since = state.lease.idle, runs_since(instance)
    if rule is None or since is None or instance.phase is not Phase.READY:
        return None
    if rule.signals != frozenset({Signal.LAST_USED}):
        return state.idle
    return IdleSummary(quiet_since=max(since, state.last_used_at or since), gpu=None, cpu=None, judged_at=now)
