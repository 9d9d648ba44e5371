"""What may be asked of an instance, in every phase and with every operation under way."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from corral.domain.errors import Failure, GoalRefusedError
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import CreateRequest, Instance, InstanceId, Observation, OperationId, ProviderId
from corral.domain.lifecycle.commands import Command, CommandOptions, apply_command
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import Operation, OperationKind, OperationStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WITHIN = timedelta(minutes=10)
SIGHTINGS = {
    Phase.STARTING: Sighting.BOOTING,
    Phase.STOPPING: Sighting.STOPPING,
    Phase.EXITED: Sighting.EXITED,
    Phase.RESTARTING: Sighting.RESTARTING,
    Phase.MIGRATING: Sighting.MIGRATING,
    Phase.DELETING: Sighting.REMOVING,
    Phase.TERMINATED: Sighting.ABSENT,
}
MAY = {
    OperationKind.START: {Phase.EXITED, Phase.FAILED},
    OperationKind.RESTART: {Phase.RUNNING, Phase.HEALTH_CHECKING, Phase.READY, Phase.FAILED},
    OperationKind.STOP: set(Phase) - {Phase.CREATING, Phase.EXITED, Phase.DELETING, Phase.TERMINATED},
    OperationKind.DELETE: set(Phase),
}
"""In which phases each may be asked of an instance that the provider has and that is left alone."""


def an_instance(phase: Phase, **facts: object) -> Instance:
    there = phase is not Phase.CREATING
    known = Instance(
        id=InstanceId("inst_1"),
        request=CreateRequest(name="worker", product_name="RTX 4090 24GB", template_id="1", regions=("CN-HK-01",)),
        goal=Goal.GONE if phase in {Phase.DELETING, Phase.TERMINATED} else Goal.RUNNING,
        phase=phase,
        operation_id=OperationId("op_1"),
        created_at=NOW,
        phase_since=NOW,
        deadline_at=None,
        provider_id=ProviderId("p-1") if there else None,
        observation=Observation(sighting=SIGHTINGS.get(phase, Sighting.RUNNING) if there else None),
        failure=Failure(code="HEALTH_CHECK_TIMEOUT", message="no response") if phase is Phase.FAILED else None,
    )
    return replace(known, **facts)  # type: ignore[arg-type]


def an_operation(kind: OperationKind, status: OperationStatus = OperationStatus.MONITORING) -> Operation:
    return Operation(id=OperationId("op_1"), instance_id=InstanceId("inst_1"), kind=kind, status=status, created_at=NOW)


def ask(instance: Instance, kind: OperationKind, current: Operation | None = None, **terms: object) -> Instance:
    asked = Command(
        kind=kind,
        operation_id=OperationId("op_2"),
        at=NOW + timedelta(seconds=1),
        within=WITHIN,
        options=CommandOptions(**terms),  # type: ignore[arg-type]
    )
    return apply_command(instance, current, asked)


def refusal(instance: Instance, kind: OperationKind, current: Operation | None = None) -> GoalRefusedError:
    with pytest.raises(GoalRefusedError) as refused:
        ask(instance, kind, current)
    return refused.value


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("kind", MAY)
def test_what_may_be_asked_in_which_phase(kind: OperationKind, phase: Phase) -> None:
    """Every phase has an answer, and a refusal names the phase."""
    instance = an_instance(phase)
    if phase in MAY[kind]:
        after = ask(instance, kind)
        assert (after.operation_id, after.phase_since) == ("op_2", NOW + timedelta(seconds=1))
        assert after.pending.sent_at is None
        return
    refused = refusal(instance, kind)
    assert refused.code == ("INSTANCE_NOT_STOPPABLE" if kind is OperationKind.STOP else "INSTANCE_NOT_STARTABLE")
    assert phase.value in refused.message
    assert refused.details == {"instanceId": "inst_1", "status": phase.value}


@pytest.mark.parametrize("asked", MAY)
@pytest.mark.parametrize("under_way", OperationKind)
def test_what_gives_way_to_what(under_way: OperationKind, asked: OperationKind) -> None:
    """A stop wins over what brings it up, a deletion over everything; the others wait."""
    instance, current = an_instance(Phase.STARTING), an_operation(under_way)
    startup = under_way in {OperationKind.CREATE, OperationKind.START, OperationKind.RESTART}
    if asked is OperationKind.DELETE or (asked is OperationKind.STOP and startup):
        assert ask(instance, asked, current).operation_id == "op_2"
        return
    refused = refusal(instance, asked, current)
    assert refused.code == ("STARTUP_OPERATION_IN_PROGRESS" if startup else "OPERATION_IN_PROGRESS")
    assert refused.details == {
        "instanceId": "inst_1", "operationId": "op_1", "kind": under_way.value, "currentPhase": "starting",
    }  # fmt: skip


@pytest.mark.parametrize("ended", [OperationStatus.COMPLETED, OperationStatus.FAILED, OperationStatus.CANCELLED])
def test_an_operation_that_ended_blocks_nothing(ended: OperationStatus) -> None:
    """Only one in progress does."""
    current = an_operation(OperationKind.STOP, ended)

    assert ask(an_instance(Phase.EXITED), OperationKind.START, current).phase is Phase.STARTING


def test_a_start_owes_a_start_only_of_what_is_stopped() -> None:
    """A failed instance that runs is inspected again; a start would be refused for ever."""
    stopped = ask(an_instance(Phase.EXITED), OperationKind.START)
    unhealthy = ask(an_instance(Phase.FAILED), OperationKind.START)

    assert (stopped.pending.action, stopped.deadline_at) == (Action.START, NOW + timedelta(seconds=1) + WITHIN)
    assert (unhealthy.pending.action, unhealthy.phase, unhealthy.failure) == (None, Phase.STARTING, None)


@pytest.mark.parametrize("kind", [OperationKind.START, OperationKind.STOP, OperationKind.RESTART])
@pytest.mark.parametrize(
    "lost",
    [{"provider_id": None, "observation": Observation()}, {"observation": Observation(sighting=Sighting.ABSENT)}],
    ids=["never made", "vanished"],
)
def test_what_the_provider_does_not_have_can_only_be_deleted(kind: OperationKind, lost: dict[str, object]) -> None:
    """A failure is startable only while there is something to start."""
    failed = an_instance(Phase.FAILED, **lost)

    assert refusal(failed, kind).code.startswith("INSTANCE_NOT_")
    assert ask(failed, OperationKind.DELETE).goal is Goal.GONE


def test_a_stop_does_not_take_an_old_sighting_for_its_own_doing() -> None:
    """With a start perhaps under way, an earlier "exited" proves nothing."""
    unasked = ask(an_instance(Phase.EXITED), OperationKind.START)
    asked = replace(unasked, pending=replace(unasked.pending, sent_at=NOW))

    assert ask(asked, OperationKind.STOP, an_operation(OperationKind.START)).observation.sighting is None
    assert ask(unasked, OperationKind.STOP, an_operation(OperationKind.START)).observation.sighting is Sighting.EXITED


def test_what_a_request_says_holds_for_its_operation_alone() -> None:
    """The order is unchanged; the next operation uses its webhook and health check again."""
    spec = HealthCheckSpec(timeout_ms=2000)
    reported = ask(
        an_instance(Phase.EXITED), OperationKind.START, health=spec, target_port=81, webhook_url="https://a/b"
    )
    later = ask(reported, OperationKind.STOP, an_operation(OperationKind.START))

    assert reported.health_spec == replace(spec, target_port=81)
    assert reported.webhook_target == "https://a/b"
    assert (later.health_spec, later.webhook_target) == (reported.request.health, None)


def test_a_port_alone_narrows_the_ordered_check() -> None:
    """The rest of the order's check stands."""
    after = ask(an_instance(Phase.EXITED), OperationKind.START, target_port=81)

    assert after.health_spec == replace(after.request.health, target_port=81)
