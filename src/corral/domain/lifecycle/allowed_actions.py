"""Which commands an instance accepts: the conditions that `commands.py` checks, and the list that the API serves."""

from __future__ import annotations

from typing import Final

from corral.domain.instance import Instance
from corral.domain.lifecycle.tables import UP, Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import ENDED, STARTUPS, Operation, OperationKind

_YIELDING: Final = {
    OperationKind.START: frozenset[OperationKind](),
    OperationKind.RESTART: frozenset[OperationKind](),
    OperationKind.STOP: STARTUPS,
    OperationKind.DELETE: frozenset(OperationKind),
}
"""The unfinished operations that each command replaces; any other makes it wait."""


def allowed_actions(instance: Instance, current: Operation | None) -> list[OperationKind]:
    """The commands that would change *instance* now, given its *current* operation."""
    return [
        kind
        for kind, is_possible in (
            (OperationKind.START, is_startable(instance)),
            (OperationKind.STOP, is_stoppable(instance)),
            (OperationKind.RESTART, is_restartable(instance)),
            (OperationKind.DELETE, True),
        )
        if is_possible and not is_done_already(instance, kind) and not is_blocked(kind, current)
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
