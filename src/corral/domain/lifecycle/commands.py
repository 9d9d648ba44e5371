"""
What may be asked of an instance that exists: to start, to stop, to restart, to go. Pure.

Each function answers the instance as it is once that is wanted, or refuses. Nothing is done yet: the goal, and what is
owed, are what the next pass acts on. A stop takes the place of a create, start or restart under way, and a deletion of
anything; the others wait their turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from corral.domain.errors import GoalRefusedError
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import Instance, OperationId, PendingAction
from corral.domain.lifecycle.tables import UP, Action, Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import ENDED, STARTUPS, Operation, OperationKind

_YIELDING: Final = {
    OperationKind.START: frozenset[OperationKind](),
    OperationKind.RESTART: frozenset[OperationKind](),
    OperationKind.STOP: STARTUPS,
    OperationKind.DELETE: frozenset(OperationKind),
}
"""Which operations under way give way to which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """What a request may say besides what it asks for."""

    name: str | None = None
    """Of the instance, where the request does not give its id."""
    health: HealthCheckSpec | None = None
    target_port: int | None = None
    """Check this port alone, whatever `health` says."""
    webhook_url: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something that is asked of an instance."""

    kind: OperationKind
    operation_id: OperationId
    at: datetime
    within: timedelta
    """How long a start or restart may take."""
    terms: CommandOptions = field(default_factory=CommandOptions)


def apply_command(instance: Instance, current: Operation | None, asked: Command) -> Instance:
    """The instance once *asked* is wanted of it; raises GoalRefusedError when it cannot be, or not now."""
    if current is not None and current.status not in ENDED and current.kind not in _YIELDING[asked.kind]:
        raise _busy(instance, current)
    match asked.kind:
        case OperationKind.START:
            return _started(instance, asked)
        case OperationKind.RESTART:
            return _restarted(instance, asked)
        case OperationKind.STOP:
            return _stopped(instance, asked)
        case OperationKind.DELETE:
            leaving = replace(_under(asked, instance), goal=Goal.GONE, phase=Phase.DELETING, deadline_at=None)
            return replace(leaving, failure=instance.failure)
        case OperationKind.CREATE:  # pragma: no cover  # a create makes an instance; it is not asked of one
            raise ValueError(asked.kind)


def is_done_already(instance: Instance, kind: OperationKind) -> bool:
    """Whether *kind* is wanted of *instance* already, or done, so that nothing is to be recorded."""
    if kind is OperationKind.DELETE:
        return instance.goal is Goal.GONE
    stopping = instance.phase is Phase.STOPPING and instance.goal is Goal.STOPPED
    return kind is OperationKind.STOP and (instance.phase is Phase.EXITED or stopping)


def _started(instance: Instance, asked: Command) -> Instance:
    if not (instance.phase is Phase.EXITED or (instance.phase is Phase.FAILED and _exists(instance))):
        never = instance.phase is Phase.FAILED
        why = "the provider does not have it: create another" if never else "only a stopped or failed one can be"
        raise _refused("INSTANCE_NOT_STARTABLE", instance, "started", why)
    return replace(
        _under(asked, instance),
        goal=Goal.RUNNING,
        phase=Phase.STARTING,
        deadline_at=asked.at + asked.within,
        # A failed instance that runs needs no start call: it is only inspected again.
        pending=PendingAction(
            action=Action.START if instance.observation.sighting in {Sighting.EXITED, None} else None
        ),
        ready_at=None,
        endpoints=(),
        access=None,
        health=None,
        observation=replace(instance.observation, failure=None),
    )


def _restarted(instance: Instance, asked: Command) -> Instance:
    runs = instance.phase in {Phase.RUNNING, Phase.HEALTH_CHECKING, Phase.READY}
    if not runs and not (instance.phase is Phase.FAILED and instance.observation.sighting is Sighting.RUNNING):
        why = "start it instead" if instance.phase is Phase.EXITED else "only a running one can be"
        raise _refused("INSTANCE_NOT_STARTABLE", instance, "restarted", why)
    return replace(
        _under(asked, instance),
        goal=Goal.RUNNING,
        phase=Phase.RESTARTING,
        deadline_at=asked.at + asked.within,
        pending=PendingAction(action=Action.RESTART),
        health=None,
    )


def _stopped(instance: Instance, asked: Command) -> Instance:
    failed = (
        instance.phase is Phase.FAILED and _exists(instance) and instance.observation.sighting is not Sighting.EXITED
    )
    if not (instance.phase in UP or instance.phase is Phase.STOPPING or failed):
        creating = instance.phase is Phase.CREATING
        why = "there is nothing to stop yet; it can be deleted" if creating else "only a running one can be"
        raise _refused("INSTANCE_NOT_STOPPABLE", instance, "stopped", why)
    in_flight = instance.pending.action is Action.START and instance.pending.sent_at is not None
    return replace(
        _under(asked, instance),
        goal=Goal.STOPPED,
        phase=Phase.STOPPING,
        deadline_at=None,
        # A start that may be under way makes the last sighting worthless: it must not pass for a stop.
        observation=replace(instance.observation, sighting=None) if in_flight else instance.observation,
    )


def _under(asked: Command, instance: Instance) -> Instance:
    """What every new operation clears of the one before."""
    return replace(
        instance,
        operation_id=asked.operation_id,
        phase_since=asked.at,
        pending=PendingAction(),
        failure=None,
        checks=_checks(instance, asked.terms),
        webhook_url=asked.terms.webhook_url,
    )


def _checks(instance: Instance, terms: CommandOptions) -> HealthCheckSpec | None:
    if terms.target_port is None:
        return terms.health
    return replace(terms.health or instance.request.health, target_port=terms.target_port)


def _exists(instance: Instance) -> bool:
    """Whether the provider has it, as far as is known."""
    return instance.provider_id is not None and instance.observation.sighting is not Sighting.ABSENT


def _busy(instance: Instance, current: Operation) -> GoalRefusedError:
    startup = current.kind in STARTUPS
    return GoalRefusedError(
        f"a {current.kind} of {instance.request.name!r} is under way: it is {instance.phase}",
        code="STARTUP_OPERATION_IN_PROGRESS" if startup else "OPERATION_IN_PROGRESS",
        details={
            "instanceId": instance.id,
            "operationId": current.id,
            "kind": current.kind.value,
            "currentPhase": instance.phase.value,
        },
    )


def _refused(code: str, instance: Instance, done: str, why: str) -> GoalRefusedError:
    return GoalRefusedError(
        f"{instance.request.name!r} is {instance.phase} and cannot be {done}: {why}",
        code=code,
        details={"instanceId": instance.id, "status": instance.phase.value},
    )
