"""
The table of transitions is exact: what the lifecycle can do is what the table holds, and nothing else.

Every consistent record is taken through `decide`, every command and every step of the engine. Each result must be
consistent again, so that no other record can come to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from itertools import product
from typing import Any

import pytest
from support.engines.known import FRESH, NOW

from corral.domain.errors import Failure, GoalRefusedError, IllegalTransitionError
from corral.domain.health.checks import HealthReport
from corral.domain.health.rechecks import HEALTH_FAILURES
from corral.domain.instance import (
    CreateAttempt,
    CreateWait,
    Instance,
    Observation,
    OperationId,
    PendingAction,
    ProviderId,
)
from corral.domain.lifecycle import decide as deciding
from corral.domain.lifecycle import tables, transitions
from corral.domain.lifecycle.commands import Command, apply_command
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.tables import HAPPY_PATH, TRANSITIONS, all_transitions, happy_path
from corral.domain.observation.sighting import Sighting
from corral.domain.operation import OperationKind

POLICY = Policy()
LATER = NOW + timedelta(minutes=10)
REPORT = HealthReport(endpoints=(), first_checked_at=NOW, last_checked_at=NOW, checks=1)
GOING = frozenset({Phase.DELETING, Phase.TERMINATED})
PENDING = {Phase.STARTING: Action.START, Phase.RESTARTING: Action.RESTART}
FAILURES = [None, *(Failure(code=code, message="") for code in sorted({"STARTUP_TIMEOUT", *HEALTH_FAILURES}))]

Pair = tuple[Phase, Phase]


def is_consistent(instance: Instance) -> bool:
    """What every record keeps to: deleting is a goal, and only a phase that waits for an action has one pending."""
    pending = instance.pending.action
    return (instance.goal is Goal.GONE) == (instance.phase in GOING) and pending in {None, PENDING.get(instance.phase)}


def uncreated() -> Iterator[Instance]:
    """Records without a machine: before, during and after a create call."""
    calls = (
        CreateAttempt(),
        CreateAttempt(number=1, sent_at=NOW),
        CreateAttempt(number=1, sent_at=NOW, ended=True, doubted_at=NOW),
        CreateAttempt(number=1, sent_at=NOW, ended=True, doubted_at=NOW, listings_without=2),
    )
    waits = (None, CreateWait(code="RESOURCE_CONSTRAINTS", message=""))
    phases = (Phase.CREATING, Phase.FAILED, Phase.DELETING, Phase.TERMINATED)
    for phase, goal, call, wait, deadline in product(phases, Goal, calls, waits, (None, NOW, LATER)):
        yield replace(FRESH, phase=phase, goal=goal, create=call, waiting=wait, deadline_at=deadline)


def made() -> Iterator[Instance]:
    """Records with a machine, by everything that the phase which follows depends on."""
    observations = [
        Observation(sighting=sighting, failure=failure, sighted_at=at)
        for sighting, failure, at in product((None, *Sighting), (None, "broken"), (NOW - timedelta(hours=1), LATER))
    ]
    observations += [Observation(sighting=sighting, unlisted_since=NOW) for sighting in (None, Sighting.RUNNING)]
    for phase in Phase:
        goals = [Goal.GONE] if phase in GOING else [Goal.RUNNING, Goal.STOPPED]
        pendings = [
            PendingAction(action=action, sent_at=sent_at)
            for action, sent_at in product({None, PENDING.get(phase)}, (None, NOW))
        ]
        failures = FAILURES if phase is Phase.FAILED else [None]
        deadlines = (None, NOW, LATER + timedelta(hours=1))
        for goal, seen, pending, deadline, failure in product(goals, observations, pendings, deadlines, failures):
            yield replace(
                FRESH,
                phase=phase,
                goal=goal,
                provider_id=ProviderId("p1"),
                observation=seen,
                pending=pending,
                deadline_at=deadline,
                failure=failure,
            )


@cache
def records() -> list[Instance]:
    """Every record that the walk begins from."""
    return [instance for instance in (*uncreated(), *made()) if is_consistent(instance)]


def results(instance: Instance) -> Iterator[tuple[Instance, Instance]]:
    """Every transition that *instance* can make, as before and after."""
    decision = deciding.decide(instance, LATER, POLICY)
    after = transitions.decided(instance, decision, LATER)
    yield instance, after
    match decision.action:
        case Action.CREATE:
            yield after, transitions.gave_up(after, Failure(code="X", message=""), LATER)
        case Action.INSPECT:
            yield after, transitions.endpoints_known(after, (), None, LATER)
        case Action.PROBE:
            yield after, transitions.healthy(after, REPORT, LATER)
            if after.phase is not Phase.FAILED:
                yield after, transitions.gave_up(after, Failure(code="X", message=""), LATER, REPORT)
        case _:
            pass
    if instance.provider_id is None:
        yield instance, transitions.created(instance, "p1", LATER)
    for kind in set(OperationKind) - {OperationKind.CREATE}:
        command = Command(kind=kind, operation_id=OperationId("op_2"), at=LATER, within=timedelta(minutes=20))
        try:
            yield instance, apply_command(instance, None, command)
        except GoalRefusedError:
            continue


def walk() -> tuple[set[Pair], set[Pair]]:
    """The pairs of phases that the lifecycle can produce, and those of them that lead to an inconsistent record."""
    pairs, broken = set[Pair](), set[Pair]()
    for instance in records():
        for before, after in results(instance):
            if before.phase is not after.phase:
                pairs.add((before.phase, after.phase))
            if not is_consistent(after):
                broken.add((before.phase, after.phase))
    return pairs, broken


def test_the_table_holds_what_the_lifecycle_does_and_nothing_else() -> None:
    """A pair too many would be a mistake that the recorder lets pass; a pair too few would stop an instance."""
    pairs, broken = walk()

    assert pairs - set(TRANSITIONS) == set()
    assert set(TRANSITIONS) - pairs == set()
    assert broken == set()


def test_an_instance_that_has_a_machine_is_never_created() -> None:
    """Whatever its phase: a rebuild, or a listing, gives a machine to a record that is still to be created."""
    created = {
        i.phase for i in records() if deciding.decide(i, LATER, POLICY).action is Action.CREATE and i.provider_id
    }

    assert created == set()


def test_an_instance_that_restarts_may_be_found_stopped() -> None:
    """The provider may fail to bring it up again."""
    assert (Phase.RESTARTING, Phase.EXITED) in TRANSITIONS


def to_ready(instance: Instance, *_: Any, **__: Any) -> Instance:
    return replace(instance, phase=Phase.READY)


MUTANTS: dict[str, tuple[object, str, Any]] = {
    "a healthy instance that is created": (transitions, "healthy", lambda i, *_: replace(i, phase=Phase.CREATING)),
    "an instance given up that is terminated": (
        transitions,
        "gave_up",
        lambda i, *_: replace(i, phase=Phase.TERMINATED),
    ),
    "a create that skips the start": (transitions, "created", to_ready),
    "a decision that resurrects": (transitions, "decided", to_ready),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_an_illegal_step_is_found_by_the_walk(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk is worth nothing if it does not see a wrong transition."""
    monkeypatch.setattr(*MUTANTS[mutant])

    assert walk()[0] - set(TRANSITIONS)


def test_an_illegal_cell_of_the_table_is_found_by_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong cell: an instance that is absent and to be deleted becomes ready."""
    monkeypatch.setitem(tables.AFTER_SIGHTING[Phase.DELETING], Sighting.ABSENT, Phase.READY)

    assert walk()[0] - set(TRANSITIONS) == {(Phase.DELETING, Phase.READY)}


def test_a_transition_outside_the_table_is_refused() -> None:
    """No change of phase is always legal."""
    ready = replace(FRESH, phase=Phase.READY)

    transitions.check_transition(ready, replace(ready, failure=Failure(code="X", message="")))
    transitions.check_transition(ready, replace(ready, phase=Phase.DELETING))
    with pytest.raises(IllegalTransitionError, match="inst_a1 cannot go from ready to terminated"):
        transitions.check_transition(ready, replace(ready, phase=Phase.TERMINATED))


def test_the_diagrams_are_drawn_from_the_table() -> None:
    """Every pair once; the happy path is a part of it."""
    drawn = [line.split(":")[0].strip() for line in all_transitions().splitlines()[2:]]
    happy = [line.split(":")[0].strip() for line in happy_path().splitlines()[2:]]

    assert drawn == [f"{before} --> {after}" for before, after in TRANSITIONS]
    assert happy == [f"{before} --> {after}" for before, after in HAPPY_PATH]
    assert all(label in TRANSITIONS[pair] for pair, label in HAPPY_PATH.items())
