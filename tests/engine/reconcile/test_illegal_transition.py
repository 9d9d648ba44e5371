"""
A mistake in the lifecycle is contained: the change is refused and logged, and no machine is deleted or forgotten.

Each test runs a mutant: an engine in which one transition leads to a phase that the table does not allow there.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.engines.stepped_engine import SteppedEngine

from corral.domain.errors import IllegalTransitionError
from corral.domain.instance import Instance
from corral.domain.lifecycle import transitions
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.compare import Comparison, compare
from corral.domain.operation import OperationKind
from corral.engine.observe import observations

LOGGED = "instance.illegal_transition"


def mutate(monkeypatch: pytest.MonkeyPatch, *, meant: Phase, taken: Phase) -> None:
    """Make every transition that is to enter *meant* enter *taken*."""
    real = transitions._enter

    def wrong(instance: Instance, phase: Phase, now: datetime, **changes: Any) -> Instance:
        return real(instance, taken if phase is meant else phase, now, **changes)

    monkeypatch.setattr(transitions, "_enter", wrong)


def errors(lines: list[Any]) -> list[str]:
    return [line["why"] for line in lines if line["event"] == LOGGED and line["log_level"] == "error"]


def deletes(engine: SteppedEngine) -> int:
    return int(engine.sim.calls()["endpoints"].get("delete", {}).get("total", 0))


async def test_a_reconcile_writes_nothing_and_comes_back_later(
    engine: SteppedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A healthy instance that would become terminated stays as it is, and becomes ready once that is fixed."""
    instance_id = await engine.request_create()
    with monkeypatch.context() as mutant, capture_logs() as lines:
        mutate(mutant, meant=Phase.READY, taken=Phase.TERMINATED)
        await engine.steps(30)
        kept = await engine.get(instance_id)

    assert kept.phase is Phase.STARTING, "the changes before it are part of the same write"
    assert errors(lines)[0].startswith(f"{instance_id} cannot go from health_checking to terminated")
    assert len(errors(lines)) <= 3, "it is not repeated at once"
    assert [machine.id for machine in engine.sim.instances()] == [kept.provider_id]
    assert (await engine.until(instance_id, Phase.READY, seconds=10)).provider_id == kept.provider_id
    assert deletes(engine) == 0


async def test_the_id_of_a_new_machine_is_recorded_all_the_same(
    engine: SteppedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is billed; a record without its id would lose it."""
    instance_id = await engine.request_create()
    with monkeypatch.context() as mutant, capture_logs() as lines:
        mutate(mutant, meant=Phase.STARTING, taken=Phase.TERMINATED)
        await engine.work()
        kept = await engine.get(instance_id)

    assert (kept.phase, kept.create_in_doubt) == (Phase.CREATING, False)
    assert errors(lines)[0].startswith(f"{instance_id} cannot go from creating to terminated")
    assert [machine.id for machine in engine.sim.instances()] == [kept.provider_id]
    assert (await engine.until(instance_id, Phase.READY)).create.number == 1
    assert deletes(engine) == 0


async def test_a_command_is_an_error_and_changes_nothing(
    engine: SteppedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets an error; the operation under way continues."""
    instance_id = await engine.request_create()
    ready = await engine.until(instance_id, Phase.READY)
    with monkeypatch.context() as mutant:
        mutate(mutant, meant=Phase.STOPPING, taken=Phase.CREATING)
        with pytest.raises(IllegalTransitionError, match="from ready to creating"):
            await engine.ask(OperationKind.STOP, instance_id)

    assert await engine.get(instance_id) == ready
    await engine.ask(OperationKind.STOP, instance_id)
    await engine.until(instance_id, Phase.EXITED)


async def test_an_observation_of_others_is_recorded(engine: SteppedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Observations change no phase; one that does is left out of the write."""
    wrong_id, right_id = await engine.request_create(), await engine.request_create()
    await engine.work()

    def wrong(*known: Any, **times: Any) -> Comparison:
        found = compare(*known, **times)
        changed = (replace(i, phase=Phase.TERMINATED) if i.id == wrong_id else i for i in found.changed)
        return replace(found, changed=tuple(changed))

    with monkeypatch.context() as mutant, capture_logs() as lines:
        mutant.setattr(observations, "compare", wrong)
        await engine.step()

    assert errors(lines) == [f"{wrong_id} cannot go from starting to terminated: no transition of the lifecycle does"]
    assert (await engine.get(wrong_id)).observation.sighting is None
    assert (await engine.get(right_id)).observation.sighting is not None
    await engine.until(wrong_id, Phase.READY)
    assert deletes(engine) == 0
