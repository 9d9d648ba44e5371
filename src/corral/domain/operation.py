"""
A requested change of an instance, and its progress.

The status of an operation follows from the phases of its instance alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from corral.domain.errors import Failure
from corral.domain.instance import Instance, InstanceId, OperationId
from corral.domain.lifecycle.phases import Phase
from corral.domain.records import replace


class OperationKind(StrEnum):
    """What was requested."""

    CREATE = "create"
    """Ends with the instance ready."""
    START = "start"
    """Of a stopped one; ends with it ready."""
    STOP = "stop"
    """Ends with it exited; replaces a create, start or restart."""
    RESTART = "restart"
    """Of a running one; ends with it ready."""
    DELETE = "delete"
    """Ends with it terminated; replaces any operation."""


class OperationStatus(StrEnum):
    """The progress of an operation."""

    INITIATED = "initiated"
    """Recorded; no effect was observed yet."""
    MONITORING = "monitoring"
    """The provider is at work on it."""
    HEALTH_CHECKING = "health_checking"
    """Endpoints are being checked."""
    COMPLETED = "completed"
    """It is done."""
    FAILED = "failed"
    """It is not done, and `error` says why."""
    CANCELLED = "cancelled"
    """Another operation replaced it."""


STARTUPS = frozenset({OperationKind.CREATE, OperationKind.START, OperationKind.RESTART})
"""Those that bring an instance up."""
ENDED = frozenset({OperationStatus.COMPLETED, OperationStatus.FAILED, OperationStatus.CANCELLED})

_FINAL_PHASE = {
    **dict.fromkeys(STARTUPS, Phase.READY),
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
    """One operation."""

    id: OperationId
    instance_id: InstanceId
    kind: OperationKind
    status: OperationStatus
    created_at: datetime
    stamps: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """When each step was reached, by its public name."""
    error: Failure | None = None
    correlation_id: str | None = None
    """Of the request that caused it; all log lines that follow from it carry it."""
    traceparent: str | None = None
    """The span of that request; what follows from it until its end belongs to the same trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceWithOperation:
    """An instance and its latest operation; None for one that is no longer recorded."""

    instance: Instance
    operation: Operation | None


def new_operation(
    kind: OperationKind,
    instance: Instance,
    now: datetime,
    *,
    correlation_id: str | None = None,
    traceparent: str | None = None,
) -> Operation:
    """The operation that was just requested of *instance*."""
    return Operation(
        id=instance.operation_id,
        instance_id=instance.id,
        kind=kind,
        status=OperationStatus.INITIATED,
        created_at=now,
        stamps={"startRequested": now} if kind in STARTUPS else {},
        correlation_id=correlation_id,
        traceparent=traceparent,
    )


def advanced(operation: Operation, instance: Instance, now: datetime) -> Operation:
    """The operation after its instance entered its present phase; one that has ended stays as it is."""
    if operation.status in ENDED:
        return operation
    stamps = dict(operation.stamps)
    # While an action is pending, the phase shows the request and not an effect.
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
    """When the phase was reached: RUNNING when it was observed, others now; never before an earlier step."""
    if instance.phase is not Phase.RUNNING or instance.observation.sighted_at is None:
        return now
    return max(min(instance.observation.sighted_at, now), *stamps.values(), instance.created_at)
