"""The served list of allowed actions is exactly what the commands accept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product

from support.engines.known import FRESH, NOW

from corral.domain.errors import GoalRefusedError
from corral.domain.instance import Instance, Observation, OperationId, ProviderId
from corral.domain.lifecycle.commands import Command, allowed_actions, apply_command, is_done_already
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import Operation, OperationKind, OperationStatus

COMMANDS = [OperationKind.START, OperationKind.STOP, OperationKind.RESTART, OperationKind.DELETE]
OPERATIONS = [None, *product(OperationKind, (OperationStatus.MONITORING, OperationStatus.COMPLETED))]


def is_accepted(instance: Instance, current: Operation | None, kind: OperationKind) -> bool:
    """Whether a command would change *instance*, by trying it."""
    command = Command(kind=kind, operation_id=OperationId("op_2"), at=NOW, within=timedelta(minutes=10))
    try:
        apply_command(instance, current, command)
    except GoalRefusedError:
        return False
    return not is_done_already(instance, kind)


def test_the_allowed_actions_are_those_that_the_commands_accept() -> None:
    """For every phase, goal, sighting and operation, with and without a machine."""
    wrong = []
    for phase, goal, sighting, given, provider_id in product(
        Phase, Goal, [None, *Sighting], OPERATIONS, [None, ProviderId("n-1")]
    ):
        observation = Observation(sighting=sighting)
        instance = replace(FRESH, phase=phase, goal=goal, provider_id=provider_id, observation=observation)
        current = None
        if given is not None:
            kind, status = given
            current = Operation(
                id=OperationId("op_1"), instance_id=instance.id, kind=kind, status=status, created_at=NOW
            )
        accepted = [kind for kind in COMMANDS if is_accepted(instance, current, kind)]
        if allowed_actions(instance, current) != accepted:
            wrong.append((phase, goal, sighting, given, provider_id))

    assert wrong == []


def test_a_ready_instance_can_be_stopped_restarted_and_deleted() -> None:
    ready = replace(FRESH, phase=Phase.READY, provider_id=ProviderId("n-1"))

    assert allowed_actions(ready, None) == [OperationKind.STOP, OperationKind.RESTART, OperationKind.DELETE]


def test_an_instance_that_is_being_deleted_accepts_nothing() -> None:
    deleting = replace(FRESH, phase=Phase.DELETING, goal=Goal.GONE)

    assert allowed_actions(deleting, None) == []
