"""
What somebody asked to be done to an instance, and how far it is.

An operation is told in the words of its own contract (`initiated`, `monitoring`, …); they follow from the phases its
instance goes through, and from nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from corral.domain.instance import Failure, Instance, InstanceId, OperationId
from corral.domain.lifecycle.tables import Phase


class OperationKind(StrEnum):
    """What was asked."""

    CREATE = "create"
    """Ends with the instance ready."""
    START = "start"
    """Of a stopped one; ends with it ready."""
    STOP = "stop"
    """Ends with it exited; takes the place of a create, start or restart."""
    RESTART = "restart"
    """Of a running one; ends with it ready."""
    DELETE = "delete"
    """Ends with it terminated; takes the place of anything."""


class OperationStatus(StrEnum):
    """How far it is."""

    INITIATED = "initiated"
    """Recorded; nothing was seen of it yet."""
    MONITORING = "monitoring"
    """The provider is at work on it."""
    HEALTH_CHECKING = "health_checking"
    """Endpoints are being checked."""
    COMPLETED = "completed"
    """It is done."""
    FAILED = "failed"
    """It is not done, and `error` says why."""
    CANCELLED = "cancelled"
    """Another took its place."""


STARTUPS = frozenset({OperationKind.CREATE, OperationKind.START, OperationKind.RESTART})
"""Those that bring an instance up."""
ENDED = frozenset({OperationStatus.COMPLETED, OperationStatus.FAILED, OperationStatus.CANCELLED})

_FINAL_PHASE = {
    OperationKind.CREATE: Phase.READY,
    OperationKind.START: Phase.READY,
    OperationKind.RESTART: Phase.READY,
    OperationKind.STOP: Phase.EXITED,
    OperationKind.DELETE: Phase.TERMINATED,
}
_STAMPS = {
    Phase.CREATING: "startRequested",
    Phase.STARTING: "instanceStarting",
    Phase.RESTARTING: "instanceStarting",
    Phase.RUNNING: "instanceRunning",
    Phase.HEALTH_CHECKING: "healthCheckStarted",
    Phase.READY: "ready",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing asked for."""

    id: OperationId
    instance_id: InstanceId
    kind: OperationKind
    status: OperationStatus
    created_at: datetime
    stamps: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """When each step was reached, by its public name."""
    error: Failure | None = None
    correlation_id: str | None = None
    """Of the request that asked for it; log lines of all that follows from it carry it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceWithOperation:
    """An instance and its latest operation; None for one that is no longer recorded."""

    instance: Instance
    operation: Operation | None


def new_operation(kind: OperationKind, instance: Instance, now: datetime) -> Operation:
    """The operation that *instance* has just been given."""
    return Operation(
        id=instance.operation_id,
        instance_id=instance.id,
        kind=kind,
        status=OperationStatus.INITIATED,
        created_at=now,
        stamps={"startRequested": now} if kind in STARTUPS else {},
    )


def advanced(operation: Operation, instance: Instance, now: datetime) -> Operation:
    """The operation after its instance entered its present phase; one that has ended stays as it is."""
    if operation.status in ENDED:
        return operation
    stamps = dict(operation.stamps)
    # What is still owed was perhaps asked for, but nothing came of it yet.
    if instance.pending.action is None and instance.phase in _STAMPS:
        stamps.setdefault(_STAMPS[instance.phase], _reached_at(instance, stamps, now))
    if instance.phase is Phase.READY:
        stamps.setdefault("healthCheckCompleted", now)
    if instance.phase is _FINAL_PHASE[operation.kind]:
        return replace(operation, status=OperationStatus.COMPLETED, stamps=stamps)
    if instance.failure is not None and operation.kind is not OperationKind.DELETE:
        return replace(operation, status=OperationStatus.FAILED, stamps=stamps, error=instance.failure)
    if instance.phase is Phase.HEALTH_CHECKING:
        return replace(operation, status=OperationStatus.HEALTH_CHECKING, stamps=stamps)
    moved = instance.phase is not Phase.CREATING and instance.pending.action is None
    return replace(operation, status=OperationStatus.MONITORING if moved else operation.status, stamps=stamps)


def _reached_at(instance: Instance, stamps: dict[str, datetime], now: datetime) -> datetime:
    """It ran when the provider was seen to say so, not when we came to write it down; no step is before another."""
    if instance.phase is not Phase.RUNNING or instance.observation.sighted_at is None:
        return now
    return max(min(instance.observation.sighted_at, now), *stamps.values(), instance.created_at)
