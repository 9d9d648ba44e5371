"""What commands do to the state of a lease: create, change, extend, report a use, start and stop. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.errors import CallerError, GoalRefusedError, SpecInvalidError
from corral.domain.instance import Instance
from corral.domain.leases.ends import runs_since
from corral.domain.leases.lease import EndCause, Lease, LeaseState, Notice, Signal
from corral.domain.leases.outlook import expected_end
from corral.domain.operation import OperationKind
from corral.domain.records import replace
from corral.domain.requests.fields import problem
from corral.domain.timing import iso

FURTHEST: Final = timedelta(days=3650)
"""How far ahead an extension may reach; far beyond any use, so that no sum of extensions leaves the calendar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """By how long, or until when, a lease is extended: one of the two."""

    by: timedelta | None = None
    until: datetime | None = None


def new_state(lease: Lease, now: datetime) -> LeaseState:
    """The state of the lease of a new instance."""
    return LeaseState(lease=lease, scheduled_at=now)


def lease_replaced(instance: Instance, lease: Lease, now: datetime) -> LeaseState:
    """
    The state after the lease was changed: times of a new schedule count from *now* on.

    A notice stays if what it announces is unchanged, so that repeated changes of something else do not put off an end.
    """
    state = instance.lease or new_state(lease, now)
    is_scheduled = state.lease.schedule == lease.schedule and state.scheduled_at is not None
    idle = state.idle if state.lease.idle == lease.idle else None
    scheduled_at = state.scheduled_at if is_scheduled else now
    notice = state.notice if state.notice is not None and _announces(state.notice, state.lease, lease) else None
    until = None if lease.is_empty else state.extended_until
    return replace(state, lease=lease, extended_until=until, notice=notice, idle=idle, scheduled_at=scheduled_at)


def extended(instance: Instance, extension: Extension, now: datetime, max_ttl: timedelta | None) -> LeaseState:
    """
    The state after an extension: a notice is cancelled, and nothing ends the instance before the extension is over.

    Raises GoalRefusedError if nothing would end it or it does not run, SpecInvalidError if the time is past or before
    the end of the present extension, and CallerError LEASE_TOO_LONG if it reaches further than *max_ttl* after it was
    ready.
    """
    state, since = instance.lease, runs_since(instance)
    name = instance.request.name
    if state is None or not _can_end(state.lease):
        raise GoalRefusedError(f"{name!r} has no lease that would end it", code="NO_LEASE")
    if since is None:
        raise GoalRefusedError(
            f"{name!r} is {instance.phase}: only the lease of one that runs can be extended",
            code="INSTANCE_NOT_RUNNING",
            details={"instanceId": instance.id, "status": instance.phase.value},
        )
    if extension.until is not None and extension.until <= now:
        raise SpecInvalidError([problem("until", "INVALID_LEASE", "must be later than now")])
    present = state.extended_until
    if extension.until is not None and present is not None and extension.until < present:
        wrong = f"must not be before {iso(present)}, until which it is extended already"
        raise SpecInvalidError([problem("until", "INVALID_LEASE", wrong)])
    latest = now + FURTHEST if max_ttl is None else min(since + max_ttl, now + FURTHEST)
    until = extension.until or _sum(instance, state, extension.by or timedelta(0), now)
    if until > latest:
        message = f"the lease of {name!r} can be extended until {iso(latest)} at the latest"
        raise CallerError(message, code="LEASE_TOO_LONG", details={"instanceId": instance.id, "latest": iso(latest)})
    return replace(state, extended_until=until, notice=None)


def used(instance: Instance, at: datetime | None, now: datetime) -> LeaseState:
    """
    The state after a use at *at*, or at *now* if that is None or in the future; one before the last known is ignored.

    It cancels a notice of an idle rule that takes uses into account. An instance without a lease gets an empty one.
    """
    state = instance.lease or LeaseState()
    at = now if at is None else min(at, now)
    if state.last_used_at is not None and at <= state.last_used_at:
        return state
    rule, notice = state.lease.idle, state.notice
    if rule is None or Signal.LAST_USED not in rule.signals or at <= now - rule.after:
        return replace(state, last_used_at=at)
    is_cancelled = notice is not None and notice.cause is EndCause.IDLE
    return replace(state, last_used_at=at, notice=None if is_cancelled else notice, idle=None)


def after_command(state: LeaseState, kind: OperationKind, at: datetime, cause: EndCause | None = None) -> LeaseState:
    """
    The state after a command; *cause* is why the lease itself gave it.

    A start makes earlier times of the schedule past, and the lease's own stop too: only a later start undoes it.
    """
    if kind is OperationKind.RESTART:
        return replace(state, ended_by=None)
    scheduled_at = at if kind is OperationKind.START or cause is not None else state.scheduled_at
    return replace(state, extended_until=None, notice=None, idle=None, ended_by=cause, scheduled_at=scheduled_at)


def stopped_by_user(state: LeaseState) -> LeaseState:
    """The state after a user stopped what its lease had stopped already: its schedule does not start it any more."""
    return state if state.ended_by is None else replace(state, ended_by=None)


def _announces(notice: Notice, before: Lease, after: Lease) -> bool:
    """Whether *notice* still says what happens under *after*, and early enough."""
    part = {EndCause.MAX_DURATION: "max_duration", EndCause.IDLE: "idle", EndCause.SCHEDULE: "schedule"}[notice.cause]
    is_same = getattr(before, part) == getattr(after, part) and before.on_end is after.on_end
    return is_same and after.grace <= before.grace


def _can_end(lease: Lease) -> bool:
    stop = None if lease.schedule is None else lease.schedule.stop
    return lease.max_duration is not None or lease.idle is not None or stop is not None


def _sum(instance: Instance, state: LeaseState, by: timedelta, now: datetime) -> datetime:
    """*by* after the present end, or after *now* if there is none."""
    end = expected_end(instance, now)
    return max(now, state.extended_until or now, now if end is None else end.ends_at) + by
