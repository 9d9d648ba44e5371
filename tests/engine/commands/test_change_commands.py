"""Stop, start, restart and delete over the real database and a simulated provider that can hurt."""

from __future__ import annotations

import asyncio

import pytest
from support.engines.audit_lines import CONTEXT, LINE
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.errors import GoalRefusedError, NotFoundError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import Operation, OperationKind
from corral.engine.commands.change import AcceptedCommand
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import operations

CHECKED = ["health_checking", "ready"]
START, STOP, RESTART, DELETE = OperationKind.START, OperationKind.STOP, OperationKind.RESTART, OperationKind.DELETE


@pytest.fixture
async def stopped(engine: SteppedEngine, ready: InstanceId) -> InstanceId:
    await engine.ask(STOP, ready)
    await engine.until(ready, Phase.EXITED)
    return ready


async def event_names(engine: SteppedEngine) -> list[str]:
    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT type FROM corral_events ORDER BY id")
    return [row["type"].removeprefix("instance.") for row in rows]


async def operation(engine: SteppedEngine, accepted: AcceptedCommand) -> Operation:
    async with engine.database.connection() as connection:
        found = await operations.load(connection, accepted.instance.operation_id)
    assert found is not None
    return found


def asked(engine: SteppedEngine, endpoint: str) -> int:
    """How often the provider was asked."""
    counts = engine.sim.calls()["endpoints"].get(endpoint)
    return 0 if counts is None else counts["total"]


def place(engine: SteppedEngine) -> tuple[str, str]:
    """The product and cluster of the one machine there is."""
    (machine,) = engine.sim.instances()
    return machine.order.product_id, machine.order.cluster_id


async def do(engine: SteppedEngine, command: str, instance_id: InstanceId) -> None:
    """What another user does, outside Corral."""
    status, _ = await engine.sim.ask(
        f"/gpu/instance/{command}", {"instanceId": (await engine.get(instance_id)).provider_id}
    )
    assert status == 200


async def test_stop_start_restart_and_delete_one_after_the_other(engine: SteppedEngine, ready: InstanceId) -> None:
    """Each is an operation that completes, with its own events."""
    first = await engine.get(ready)
    road: dict[OperationKind, Phase] = {
        STOP: Phase.EXITED, START: Phase.READY, RESTART: Phase.READY, DELETE: Phase.TERMINATED,
    }  # fmt: skip
    for kind, end in road.items():
        before = len(await event_names(engine))
        accepted = await engine.ask(kind, ready)
        after = await engine.until(ready, end)
        assert (await operation(engine, accepted)).status == "completed", kind
        assert after.failure is None
        event_publisher = (await event_names(engine))[before:]
        assert event_publisher == {
            STOP: ["changed", "stopped"],
            START: ["startup_initiated", "changed", "starting", "running", *CHECKED, "startup_completed"],
            RESTART: ["changed", "changed", "running", "health_checking", "ready"],
            DELETE: ["changed", "terminated"],
        }[kind], kind  # fmt: skip
        if kind is START:
            assert first.ready_at is not None
            assert after.ready_at is not None
            assert after.ready_at > first.ready_at, "readyAt is of the last create or start"
            assert {e.port for e in after.endpoints} == {8888, 22}
    assert asked(engine, "create") == 1


async def test_of_many_starts_at_once_one_is_heard(engine: SteppedEngine, stopped: InstanceId) -> None:
    """The other callers get the operation under way."""
    outcomes = await asyncio.gather(
        *(engine.changes.record(START, stopped, CommandOptions(), CONTEXT) for _ in range(20)), return_exceptions=True
    )
    heard = [outcome for outcome in outcomes if isinstance(outcome, AcceptedCommand)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, GoalRefusedError)]

    assert (len(heard), len(refused)) == (1, 19)
    assert {error.code for error in refused} == {"STARTUP_OPERATION_IN_PROGRESS"}
    assert {error.details["operationId"] for error in refused} == {heard[0].instance.operation_id}
    await engine.until(stopped, Phase.READY)


@pytest.mark.parametrize("fault", ["lost_reply", "500_but_created"])
@pytest.mark.parametrize("kind", [START, RESTART, STOP])
async def test_an_answer_that_is_lost_changes_nothing_of_the_end(
    engine: SteppedEngine, kind: OperationKind, fault: str
) -> None:
    """What was asked for is seen to happen, or is asked for again."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    if kind is START:
        await engine.ask(STOP, instance_id)
        await engine.until(instance_id, Phase.EXITED)
    engine.sim.fault(fault, on=kind.value, count=1)
    accepted = await engine.ask(kind, instance_id)
    await engine.until(instance_id, Phase.EXITED if kind is STOP else Phase.READY, steps=90)

    assert (await operation(engine, accepted)).status == "completed"


async def test_a_restart_too_quick_to_be_seen_is_believed_by_its_start(
    engine: SteppedEngine, ready: InstanceId
) -> None:
    """The provider shows when it last started; nothing else shows that it was off."""
    engine.sim.set(restart_seconds=0.1)
    began = engine.clock.now()
    accepted = await engine.ask(RESTART, ready)
    after = await engine.until(ready, Phase.READY)

    assert (await operation(engine, accepted)).status == "completed"
    assert asked(engine, "restart") == 1
    assert (after.phase_since - began).total_seconds() < 20


async def test_a_quick_restart_without_a_trace_is_believed_after_the_settle_time(
    database: Database, target: DatabaseTarget
) -> None:
    """A provider without start times must not be waited for for ever, nor called twice."""
    async with stepped_engine(database, target, extras_in_list=False, restart_seconds=0.1) as engine:
        instance_id = await engine.request_create()
        await engine.until(instance_id, Phase.READY)
        began = engine.clock.now()
        await engine.ask(RESTART, instance_id)
        after = await engine.until(instance_id, Phase.READY)

        assert asked(engine, "restart") == 1
        assert (after.phase_since - began).total_seconds() >= 60


async def test_a_restart_that_never_arrived_is_asked_for_again(database: Database, target: DatabaseTarget) -> None:
    """In doubt, and nothing seen of it for the settle time: it did not happen."""
    async with stepped_engine(database, target) as engine:
        instance_id = await engine.request_create()
        await engine.until(instance_id, Phase.READY)
        engine.sim.fault("error_500", on="restart", count=1)
        accepted = await engine.ask(RESTART, instance_id)
        await engine.until(instance_id, Phase.READY, steps=90)

        assert asked(engine, "restart") == 2
        assert (await operation(engine, accepted)).status == "completed"


async def test_a_host_without_a_gpu_is_asked_again_until_one_is_free(
    engine: SteppedEngine, stopped: InstanceId
) -> None:
    """Less and less often, and the reason can be seen meanwhile."""
    engine.sim.set_stock(*place(engine), 0)
    accepted = await engine.ask(START, stopped)
    await engine.steps(60)
    waiting = await engine.get(stopped)
    tries = asked(engine, "start")
    assert (waiting.phase, waiting.pending.refused and waiting.pending.refused.code) == (
        Phase.STARTING,
        "RESOURCE_CONSTRAINTS",
    )
    assert 4 <= tries <= 7, "5, 10, 20, 40 and 60 seconds apart"
    assert (await operation(engine, accepted)).status == "initiated"

    engine.sim.set_stock(*place(engine), None)
    await engine.until(stopped, Phase.READY, steps=60)
    assert (await operation(engine, accepted)).status == "completed"


async def test_a_start_without_a_gpu_fails_at_its_deadline_and_harms_nothing(
    engine: SteppedEngine, stopped: InstanceId
) -> None:
    """It is stopped as before, says what can be done, and may be started again."""
    stopped_at = (await engine.get(stopped)).stopped_at
    engine.sim.set_stock(*place(engine), 0)
    accepted = await engine.ask(START, stopped)
    after = await engine.until(stopped, Phase.EXITED, steps=70, seconds=10)
    ended = await operation(engine, accepted)

    assert ended.status == "failed"
    assert ended.error == after.failure
    assert after.failure is not None
    assert after.failure.code == "RESOURCE_CONSTRAINTS"
    assert "start it again later" in after.failure.message
    assert after.stopped_at == stopped_at
    assert (await event_names(engine))[-1] == "startup_failed"
    assert asked(engine, "delete") == asked(engine, "migrate") == 0
    engine.sim.set_stock(*place(engine), None)
    await engine.ask(START, stopped)
    await engine.until(stopped, Phase.READY, steps=60)


async def test_an_account_that_cannot_pay_keeps_a_start_waiting_until_its_deadline(
    engine: SteppedEngine, ready: InstanceId
) -> None:
    """The balance may be topped up meanwhile; an event and finally the error say why."""
    await engine.step(10 * 3600)
    await engine.ask(STOP, ready)
    stopped = (await engine.until(ready, Phase.EXITED)).id
    engine.sim.set(balance_usd=1)
    accepted = await engine.ask(START, stopped)
    await engine.step()
    waits = await engine.get(stopped)
    assert (waits.phase, waits.pending.refused and waits.pending.refused.code) == (
        Phase.STARTING,
        "INSUFFICIENT_BALANCE",
    )
    after = await engine.until(stopped, Phase.EXITED, steps=30, seconds=30)

    assert (await operation(engine, accepted)).status == "failed"
    assert (after.phase, after.failure and after.failure.code) == (Phase.EXITED, "INSUFFICIENT_BALANCE")


@pytest.mark.parametrize("sent", [True, False])
async def test_a_stop_wins_over_a_start(engine: SteppedEngine, stopped: InstanceId, *, sent: bool) -> None:
    """Whether or not the start was already sent; within two listings nothing is billed any more."""
    start = await engine.ask(START, stopped)
    if sent:
        await engine.work()
    await engine.ask(STOP, stopped)
    await engine.until(stopped, Phase.EXITED)
    await engine.steps(5)

    assert (await operation(engine, start)).status == "cancelled"
    assert await engine.phase(stopped) is Phase.EXITED
    assert engine.sim.ledger().billed_now == 0


async def test_a_start_that_takes_effect_after_the_stop_is_stopped_again(
    engine: SteppedEngine, stopped: InstanceId
) -> None:
    """A foreign change, or one of ours that was long under way: the goal decides."""
    await do(engine, "start", stopped)
    await engine.steps(8)

    assert await engine.phase(stopped) is Phase.EXITED
    assert engine.sim.ledger().billed_now == 0


async def test_one_that_stops_by_itself_is_left_stopped(engine: SteppedEngine, ready: InstanceId) -> None:
    """A reclaimed spot machine is not started again behind its user's back."""
    await do(engine, "stop", ready)
    await engine.steps(20)

    assert await engine.phase(ready) is Phase.EXITED
    assert asked(engine, "start") == 0


async def test_one_that_stops_while_it_starts_fails_its_start(engine: SteppedEngine, stopped: InstanceId) -> None:
    """It is stopped, and its operation says so instead of waiting for the deadline."""
    engine.sim.set(guest="refused")
    accepted = await engine.ask(START, stopped)
    await engine.until(stopped, Phase.HEALTH_CHECKING)
    await do(engine, "stop", stopped)
    after = await engine.until(stopped, Phase.EXITED)

    assert after.failure is not None
    assert after.failure.code == "STARTUP_FAILED"
    assert (await operation(engine, accepted)).status == "failed"


async def test_a_provider_that_is_away_delays_a_start_and_fails_nothing(
    engine: SteppedEngine, stopped: InstanceId
) -> None:
    """Nothing was asked, so nothing is in doubt."""
    engine.sim.fault("refuse", count=None)
    accepted = await engine.ask(START, stopped)
    await engine.steps(20)
    assert (await operation(engine, accepted)).status == "initiated"

    engine.sim.no_more_faults()
    await engine.until(stopped, Phase.READY)


async def test_a_name_finds_the_one_that_lives(engine: SteppedEngine, ready: InstanceId) -> None:
    """Those that are gone or going do not count; of two that live neither is guessed."""
    assert await engine.changes.named(STOP, "worker", LINE) == ready
    other = await engine.request_create()
    with pytest.raises(GoalRefusedError) as refused:
        await engine.changes.named(STOP, "worker", LINE)
    assert refused.value.code == "NAME_AMBIGUOUS"
    assert set(refused.value.details["instanceIds"]) == {ready, other}  # type: ignore[call-overload]
    await engine.request_delete(ready)
    assert await engine.changes.named(STOP, "worker", LINE) == other
    await engine.request_delete(other)
    with pytest.raises(NotFoundError):
        await engine.changes.named(STOP, "worker", LINE)
