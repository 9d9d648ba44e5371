"""
Commands on an instance that exists (start, stop, restart, delete): which it accepts, and what they change. Pure.

A command changes the record only: its goal and pending action are what the next reconcile acts on. A stop replaces a
create, start or restart under way, and a delete replaces any operation; other commands are refused meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from corral.domain.errors import GoalRefusedError
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import Instance, OperationId
from corral.domain.leases.changes import after_command
from corral.domain.leases.lease import EndCause
from corral.domain.lifecycle.phases import UP, Goal, Phase
from corral.domain.lifecycle.transitions import delete_requested, restart_requested, start_requested, stop_requested
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import ENDED, STARTUPS, Operation, OperationKind

_YIELDING: Final = {
    OperationKind.START: frozenset[OperationKind](),
    OperationKind.RESTART: frozenset[OperationKind](),
    OperationKind.STOP: STARTUPS,
    OperationKind.DELETE: frozenset(OperationKind),
}
"""The unfinished operations that each command replaces; any other makes it wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The optional parts of a command."""

    name: str | None = None
    """Of the instance, if the request does not give its id."""
    health: HealthCheckSpec | None = None
    target_port: int | None = None
    """Check this port alone, whatever `health` says."""
    webhook_url: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A requested change of an instance."""

    kind: OperationKind
    operation_id: OperationId
    at: datetime
    within: timedelta
    """How long a start or restart may take."""
    options: CommandOptions = field(default_factory=CommandOptions)
    cause: EndCause | None = None
    """Set if the lease of the instance ends it."""


def apply_command(instance: Instance, current: Operation | None, command: Command) -> Instance:
    """The instance after *command*; raises GoalRefusedError if that is not possible, or not now."""
    if current is not None and is_blocked(command.kind, current):
        raise _busy(instance, current)
    lease = instance.lease
    ours = replace(
        instance,
        operation_id=command.operation_id,
        checks=_checks(instance, command.options),
        webhook_url=command.options.webhook_url,
        lease=lease and after_command(lease, command.kind, command.at, command.cause),
    )
    if not _POSSIBLE[command.kind](instance):
        raise _refused(command.kind, instance)
    match command.kind:
        case OperationKind.START:
            return start_requested(ours, command.at, command.within)
        case OperationKind.RESTART:
            return restart_requested(ours, command.at, command.within)
        case OperationKind.STOP:
            return stop_requested(ours, command.at)
        case _:
            return delete_requested(ours, command.at)


def allowed_actions(instance: Instance, current: Operation | None) -> list[OperationKind]:
    """The commands that would change *instance* now, given its *current* operation."""
    return [
        kind
        for kind, is_possible in _POSSIBLE.items()
        if is_possible(instance) and not is_done_already(instance, kind) and not is_blocked(kind, current)
    ]


def is_blocked(kind: OperationKind, current: Operation | None) -> bool:
    """Whether *kind* must wait for the end of the *current* operation."""
    return current is not None and current.status not in ENDED and current.kind not in _YIELDING[kind]


def is_done_already(instance: Instance, kind: OperationKind) -> bool:
    """Whether *kind* was requested of *instance* already, or is done, so that nothing needs to be recorded."""
    if kind is OperationKind.DELETE:
        return instance.goal is Goal.GONE
    stopping = instance.phase is Phase.STOPPING and instance.goal is Goal.STOPPED
    return kind is OperationKind.STOP and (instance.phase is Phase.EXITED or stopping)


def is_startable(instance: Instance) -> bool:
    """Whether it is stopped, or failed and still at the provider."""
    return instance.phase is Phase.EXITED or (instance.phase is Phase.FAILED and _exists(instance))


def is_restartable(instance: Instance) -> bool:
    """Whether it runs, also as failed."""
    runs = instance.phase in {Phase.RUNNING, Phase.HEALTH_CHECKING, Phase.READY}
    return runs or (instance.phase is Phase.FAILED and instance.observation.sighting is Sighting.RUNNING)


def is_stoppable(instance: Instance) -> bool:
    """Whether it runs or comes up, is being stopped, or is failed and not stopped."""
    is_up = _exists(instance) and instance.observation.sighting is not Sighting.EXITED
    return instance.phase in UP or instance.phase is Phase.STOPPING or (instance.phase is Phase.FAILED and is_up)


def _exists(instance: Instance) -> bool:
    """Whether the provider has it, according to the last observation."""
    return instance.provider_id is not None and instance.observation.sighting is not Sighting.ABSENT


_POSSIBLE: Final[Mapping[OperationKind, Callable[[Instance], bool]]] = {
    OperationKind.START: is_startable,
    OperationKind.STOP: is_stoppable,
    OperationKind.RESTART: is_restartable,
    OperationKind.DELETE: lambda _: True,
}


def _checks(instance: Instance, options: CommandOptions) -> HealthCheckSpec | None:
    if options.target_port is None:
        return options.health
    return replace(options.health or instance.request.health, target_port=options.target_port)


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


def _refused(kind: OperationKind, instance: Instance) -> GoalRefusedError:
    why = "only a running one can be"
    match kind, instance.phase:
        case OperationKind.START, Phase.FAILED:
            why = "the provider does not have it: create another"
        case OperationKind.START, _:
            why = "only a stopped or failed one can be"
        case OperationKind.RESTART, Phase.EXITED:
            why = "start it instead"
        case OperationKind.STOP, Phase.CREATING:
            why = "there is nothing to stop yet; it can be deleted"
        case _:
            pass
    done = "stopped" if kind is OperationKind.STOP else f"{kind}ed"
    return GoalRefusedError(
        f"{instance.request.name!r} is {instance.phase} and cannot be {done}: {why}",
        code="INSTANCE_NOT_STOPPABLE" if kind is OperationKind.STOP else "INSTANCE_NOT_STARTABLE",
        details={"instanceId": instance.id, "status": instance.phase.value},
    )
