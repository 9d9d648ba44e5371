"""What is told of an instance, and when: each real change once, in the words of the contract."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from corral.domain.instance import Instance
from corral.domain.lifecycle import Phase


class EventType(StrEnum):
    """The public names of what can happen."""

    CREATED = "instance.created"
    STARTING = "instance.starting"
    RUNNING = "instance.running"
    HEALTH_CHECKING = "instance.health_checking"
    READY = "instance.ready"
    FAILED = "instance.failed"
    TIMEOUT = "instance.timeout"
    STOPPED = "instance.stopped"
    TERMINATED = "instance.terminated"
    VANISHED = "instance.vanished"
    STARTUP_INITIATED = "instance.startup_initiated"
    STARTUP_COMPLETED = "instance.startup_completed"
    STARTUP_FAILED = "instance.startup_failed"
    CHANGED = "instance.changed"
    """A change without a name of its own; in the log, but not sent to webhooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One recorded change of an instance; `before` is None when it is new."""

    before: Instance | None
    after: Instance
    because: str
    at: datetime


_BY_PHASE = {
    Phase.STARTING: EventType.STARTING,
    Phase.RUNNING: EventType.RUNNING,
    Phase.HEALTH_CHECKING: EventType.HEALTH_CHECKING,
    Phase.READY: EventType.READY,
    Phase.EXITED: EventType.STOPPED,
    Phase.TERMINATED: EventType.TERMINATED,
}
_BY_FAILURE = {"STARTUP_TIMEOUT": EventType.TIMEOUT, "INSTANCE_VANISHED": EventType.VANISHED}


def event_of(change: Change) -> EventType:
    """The name of *change*."""
    if change.before is None:
        return EventType.CREATED
    if change.after.phase is change.before.phase:
        return EventType.CHANGED
    if change.after.phase is Phase.FAILED:
        code = "" if change.after.failure is None else change.after.failure.code
        return _BY_FAILURE.get(code, EventType.FAILED)
    return _BY_PHASE.get(change.after.phase, EventType.CHANGED)
