"""What the engine counts while it works."""

from __future__ import annotations

from support.engines.stepped_engine import SteppedEngine

from corral.base.metrics import ReconcileEnd
from corral.domain.events import EventType
from corral.domain.lifecycle.phases import Action, Phase
from corral.store.tables import operations


def counted(engine: SteppedEngine, name: str) -> dict[tuple[str, ...], float]:
    """What *name* counted, by its labels; what did not happen is left out."""
    families = engine.metrics.registry.collect()
    samples = (s for family in families for s in family.samples if s.name == name)
    return {tuple(s.labels.values()): s.value for s in samples if s.value}


async def test_a_life_is_counted_step_by_step(engine: SteppedEngine) -> None:
    """Each transition and event once; the times are those of the operation."""
    instance_id = await engine.request_create()
    ready = await engine.until(instance_id, Phase.READY)
    async with engine.database.connection() as connection:
        operation = await operations.load(connection, ready.operation_id)

    assert counted(engine, "corral_transitions_total") == {
        ("", "creating"): 1,
        ("creating", "starting"): 1,
        ("starting", "running"): 1,
        ("running", "health_checking"): 1,
        ("health_checking", "ready"): 1,
    }
    assert counted(engine, "corral_events_total") == {
        (event,): 1
        for event in (
            EventType.CREATED,
            EventType.STARTING,
            EventType.RUNNING,
            EventType.HEALTH_CHECKING,
            EventType.READY,
        )
    }
    assert operation is not None
    at = operation.stamps
    took = (at["ready"] - operation.created_at).total_seconds()
    assert took > 0
    assert counted(engine, "corral_time_to_ready_seconds_sum") == {("create",): took}
    assert counted(engine, "corral_time_to_ready_seconds_count") == {("create",): 1}
    assert counted(engine, "corral_readiness_lag_seconds_count") == {("create",): 1}
    lag = (at["ready"] - at["instanceRunning"]).total_seconds()
    assert counted(engine, "corral_readiness_lag_seconds_sum").get(("create",), 0) == lag


async def test_passes_and_actions_are_counted_by_how_they_end(engine: SteppedEngine) -> None:
    """An outage shows as failed creates, not as silence."""
    engine.sim.fault("error_500", on="create", count=1)
    engine.sim.fault("error_500", on="get", count=1)
    await engine.until(await engine.request_create(), Phase.READY, steps=120)
    passes, actions = counted(engine, "corral_passes_total"), counted(engine, "corral_actions_total")

    assert passes[ReconcileEnd.SETTLED,] >= 1
    assert actions[Action.CREATE, "ok"] >= 1
    assert actions[Action.INSPECT, "failed"] >= 1
    assert passes[ReconcileEnd.FAILED,] >= 1
    assert sum(passes.values()) == sum(counted(engine, "corral_pass_seconds_count").values())


async def test_listings_of_the_account_are_counted(engine: SteppedEngine) -> None:
    """Also those that failed."""
    await engine.steps(3)
    engine.sim.fault("error_500", on="list", count=2)
    await engine.steps(2)

    assert counted(engine, "corral_looks_total") == {("complete",): 3, ("failed",): 2}
    assert counted(engine, "corral_look_seconds_count") == {(): 3}


def test_every_word_of_the_tables_has_its_number_from_the_beginning(engine: SteppedEngine) -> None:
    """A new phase, action or event cannot be forgotten here."""
    labels: dict[str, set[str]] = {}
    for family in engine.metrics.registry.collect():
        for sample in family.samples:
            labels.setdefault(family.name, set()).update(sample.labels.values())

    assert labels["corral_transitions"] >= set(Phase)
    assert labels["corral_actions"] >= set(Action)
    assert labels["corral_events"] == set(EventType)
    assert labels["corral_passes"] == set(ReconcileEnd)
