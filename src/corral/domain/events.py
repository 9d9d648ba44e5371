"""
Which events a change of an instance causes.

Most changes cause one event, named for the phase entered. A change that begins or ends a *start* operation causes a
second one (`instance.startup_…`); the caller passes the operation's `Progress` for that. Creates, stops, restarts and
deletes have no further events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from corral.domain.errors import Failure
from corral.domain.instance import Instance, InstanceId, OperationId, ProviderId
from corral.domain.leases.lease import LeaseState, Notice
from corral.domain.lifecycle.phases import Action, Phase
from corral.domain.operation import Operation, OperationKind, OperationStatus


class EventType(StrEnum):
    """The public names of events."""

    CREATED = "instance.created"
    """It was requested."""
    STARTING = "instance.starting"
    """The provider boots it."""
    RUNNING = "instance.running"
    """The provider says it runs."""
    HEALTH_CHECKING = "instance.health_checking"
    """Its endpoints are being checked."""
    READY = "instance.ready"
    """It can be used."""
    FAILED = "instance.failed"
    """It did not come up; `error` says why."""
    TIMEOUT = "instance.timeout"
    """It did not come up in time; it is still watched."""
    STOPPED = "instance.stopped"
    """It is stopped; the provider keeps its disk for some days."""
    TERMINATED = "instance.terminated"
    """It is gone, as requested."""
    VANISHED = "instance.vanished"
    """It is gone without a request."""
    RECLAIM_NOTICE = "instance.reclaim_notice"
    """The provider takes its spot machine back; `reason` says when. Again when that changes."""
    DATA_EXPIRING = "instance.data_expiring"
    """The provider purges the data of the stopped machine at `data.dataKeptUntil`; 48 and 6 hours before."""
    STARTUP_INITIATED = "instance.startup_initiated"
    """A start was requested."""
    STARTUP_COMPLETED = "instance.startup_completed"
    """That start brought it up; comes after `instance.ready`."""
    STARTUP_FAILED = "instance.startup_failed"
    """That start did not; comes after the event that says why, if the machine moved."""
    LABELS_CHANGED = "instance.labels_changed"
    """Its labels were replaced; nothing else changed."""
    LEASE_CHANGED = "instance.lease_changed"
    """Its lease was changed or extended."""
    ENDING_SOON = "instance.ending_soon"
    """Its lease will stop or delete it; `data` has `cause`, `reason` and `endsAt`. Again when that changes."""
    ENDING_CANCELLED = "instance.ending_cancelled"
    """That will not happen; `reason` says why."""
    WAITING = "instance.waiting"
    """It cannot be created at the moment, and is tried again; `reason` says why."""
    CHANGED = "instance.changed"
    """A change without a name of its own; in the log, but not sent to webhooks."""
    BUDGET_THRESHOLD = "budget.threshold"
    """The part `data.threshold` of a budget is spent; once a period each. Not about one instance."""
    BUDGET_EXHAUSTED = "budget.exhausted"
    """All of a budget is spent; once a period. Not about one instance."""
    LOW_BALANCE = "account.low_balance"
    """The account at the provider lasts only for `data.hoursLeft` at the present cost. Not about one instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a change moved an operation; `before` is None when the change began it."""

    before: Operation | None
    after: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One recorded change of an instance; `before` is None when it is new."""

    before: Instance | None
    after: Instance
    because: str
    at: datetime
    progress: Progress | None = None
    """For the events of a `start` operation; None: only events of the instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDraft:
    """One event to record."""

    type: EventType
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetEvent:
    """One event to record that is not about one instance."""

    type: EventType
    subject: str
    """What it is about, such as `budget:NAME`; the webhooks of one subject are sent in order."""
    reason: str
    at: datetime
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the log."""

    id: str
    """Unique everywhere, not only in this database: receivers recognise duplicates by it."""
    seq: int
    """Its position among all events, without gaps."""
    type: EventType
    instance_id: InstanceId | None
    """None: it is not about one instance; then it has no phase and no operation either."""
    provider_id: ProviderId | None
    phase: Phase | None
    previous_phase: Phase | None
    operation_id: OperationId | None
    reason: str
    failure: Failure | None
    at: datetime
    since_asked: timedelta | None
    """Time since its operation was requested; None if that operation is not stored."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the instance, after the change."""
    data: Mapping[str, object] = field(default_factory=dict[str, object])


_BY_PHASE = {
    Phase.STARTING: EventType.STARTING,
    Phase.RUNNING: EventType.RUNNING,
    Phase.HEALTH_CHECKING: EventType.HEALTH_CHECKING,
    Phase.READY: EventType.READY,
    Phase.EXITED: EventType.STOPPED,
    Phase.TERMINATED: EventType.TERMINATED,
}
_NO_LEASE = LeaseState()
_BY_FAILURE = {"STARTUP_TIMEOUT": EventType.TIMEOUT, "INSTANCE_VANISHED": EventType.VANISHED}
_BY_OUTCOME = {OperationStatus.COMPLETED: EventType.STARTUP_COMPLETED, OperationStatus.FAILED: EventType.STARTUP_FAILED}


def event_drafts(changes: Iterable[Change]) -> list[EventDraft]:
    """The events of *changes*, in order."""
    return [
        EventDraft(type=kind, change=part) for change in changes for part in _parts(change) for kind in _names(part)
    ]


def _parts(change: Change) -> list[Change]:
    """*change*, split in two if a start was observed only once the machine ran: it had booted before."""
    before = change.before
    if before is None or before.pending.action is not Action.START or change.after.phase is not Phase.RUNNING:
        return [change]
    if before.labels != change.after.labels:
        return [change]
    booted = replace(before, pending=replace(before.pending, action=None))
    return [replace(change, after=booted, progress=None), replace(change, before=booted)]


def event_of(change: Change) -> EventType:
    """The event of *change*, apart from its operation."""
    if change.before is None:
        return EventType.CREATED
    if change.after.labels != change.before.labels:
        return EventType.LABELS_CHANGED
    never_left = change.before.pending.action is Action.START and change.after.phase is Phase.EXITED
    if change.after.pending.action is Action.START or never_left:
        return EventType.CHANGED  # a start was requested, or had no effect: the machine has not changed
    if change.before.pending.action is Action.START and change.after.phase is Phase.STARTING:
        return EventType.STARTING
    if change.after.phase is change.before.phase:
        return EventType.WAITING if starts_to_wait(change.before, change.after) else EventType.CHANGED
    if change.after.phase is Phase.FAILED:
        code = "" if change.after.failure is None else change.after.failure.code
        return _BY_FAILURE.get(code, EventType.FAILED)
    return _BY_PHASE.get(change.after.phase, EventType.CHANGED)


def starts_to_wait(before: Instance, after: Instance) -> bool:
    """Whether a create began to wait, or waits for another reason; the same obstacle again is no event."""
    codes = [None if each.waiting is None else each.waiting.code for each in (before, after)]
    return after.waiting is not None and codes[0] != codes[1]


def warns_of_purge(before: Instance, after: Instance) -> bool:
    """Whether a change warns that the data of the stopped machine will be purged."""
    return after.announced_data not in {None, before.announced_data}


def startup_event(progress: Progress) -> EventType | None:
    """The event of a start operation; None for other operations, and if it neither began nor ended."""
    before, after = progress.before, progress.after
    if after.kind is not OperationKind.START:
        return None
    if before is None:
        return EventType.STARTUP_INITIATED
    return None if before.status is after.status else _BY_OUTCOME.get(after.status)


def lease_events(before: Instance, after: Instance) -> list[EventType]:
    """The events of a change of the lease; none if it is part of a command, which has events of its own."""
    if before.lease == after.lease or before.operation_id != after.operation_id:
        return []
    old, new = before.lease or _NO_LEASE, after.lease or _NO_LEASE
    names: list[EventType] = []
    if (old.lease, old.extended_until) != (new.lease, new.extended_until):
        names.append(EventType.LEASE_CHANGED)
    if _announced(old.notice) != _announced(new.notice):
        names.append(EventType.ENDING_CANCELLED if new.notice is None else EventType.ENDING_SOON)
    return names


def _announced(notice: Notice | None) -> Notice | None:
    """What *notice* announces; that the end waits for a measurement is no part of it."""
    return None if notice is None else replace(notice, awaited_since=None)


def _names(change: Change) -> list[EventType]:
    names, before, after = _names_of_phase(change), change.before, change.after
    others = [] if before is None else lease_events(before, after)
    if after.announced_spot not in {None, None if before is None else before.announced_spot}:
        others.append(EventType.RECLAIM_NOTICE)
    if before is not None and warns_of_purge(before, after):
        others.append(EventType.DATA_EXPIRING)
    return [*others, *(name for name in names if name is not EventType.CHANGED)] if others else names


def _names_of_phase(change: Change) -> list[EventType]:
    of_instance = event_of(change)
    of_start = None if change.progress is None else startup_event(change.progress)
    if of_start is None:
        return [of_instance]
    if of_instance is EventType.CHANGED and change.before is not None and change.before.phase is change.after.phase:
        return [of_start]
    # The request of a start precedes its effects, and its end follows them.
    return [of_start, of_instance] if of_start is EventType.STARTUP_INITIATED else [of_instance, of_start]
