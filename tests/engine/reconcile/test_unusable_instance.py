"""What is not usable is not called ready; what becomes usable late is."""

from __future__ import annotations

from dataclasses import replace

from support.engines.engine_steps import REQUEST
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import operations

IMPATIENT = replace(REQUEST, health=replace(REQUEST.health, retry_attempts=1, retry_delay_ms=1000, max_wait_ms=30_000))


async def console(engine: SteppedEngine, command: str, instance_id: InstanceId) -> None:
    """What a person does in the provider's console."""
    provider_id = (await engine.get(instance_id)).provider_id
    status, _ = await engine.sim.ask(f"/gpu/instance/{command}", {"instanceId": provider_id})
    assert status == 200


async def operation_status(engine: SteppedEngine, instance_id: InstanceId) -> str:
    async with engine.database.connection() as connection:
        found = await operations.load(connection, (await engine.get(instance_id)).operation_id)
    assert found is not None
    return found.status


async def test_a_frozen_machine_is_not_ready_until_it_thaws(engine: SteppedEngine, ready: InstanceId) -> None:
    """An account in debt, say; nothing of it can be used meanwhile, and nothing is sent to the provider."""
    engine.sim.fault("freeze", name="corral-", seconds=20)
    await engine.until(ready, Phase.STOPPING, steps=2)
    await engine.until(ready, Phase.READY)

    calls = engine.sim.calls()["endpoints"]
    assert not {"stop", "start", "delete"} & set(calls)


async def test_a_machine_that_is_removed_in_the_console_is_not_ready(engine: SteppedEngine, ready: InstanceId) -> None:
    """It goes while it is still listed; then it has vanished."""
    engine.sim.set(remove_seconds=20)
    await console(engine, "delete", ready)
    await engine.until(ready, Phase.STOPPING, steps=2)
    failed = await engine.until(ready, Phase.FAILED, steps=60)

    assert failed.failure is not None
    assert failed.failure.code == "INSTANCE_VANISHED"


async def test_a_restart_in_the_console_that_ends_stopped_is_exited(engine: SteppedEngine, ready: InstanceId) -> None:
    """It did not come up again; the provider says exited, and it stays so."""
    engine.sim.set(restart_seconds=4, stop_seconds=0.1)
    await console(engine, "restart", ready)
    await engine.until(ready, Phase.RESTARTING, steps=2)
    engine.sim.advance(4)
    await console(engine, "stop", ready)
    await engine.step()
    assert await engine.phase(ready) is Phase.RESTARTING, "a machine that restarts may be seen stopped for a moment"
    exited = await engine.until(ready, Phase.EXITED, steps=40)

    assert exited.failure is None
    assert await operation_status(engine, ready) == "completed"


async def test_a_restart_of_ours_that_ends_stopped_fails(engine: SteppedEngine, ready: InstanceId) -> None:
    """Its operation says so, long before its deadline."""
    engine.sim.set(restart_seconds=4, stop_seconds=0.1)
    await engine.ask(OperationKind.RESTART, ready)
    await engine.steps(2)
    engine.sim.advance(4)
    await console(engine, "stop", ready)
    exited = await engine.until(ready, Phase.EXITED, steps=40)

    assert exited.failure is not None
    assert exited.failure.code == "STARTUP_FAILED"
    assert await operation_status(engine, ready) == "failed"


async def test_a_create_that_is_stopped_in_the_console_ends(database: Database, target: DatabaseTarget) -> None:
    """Seen stopping first, it still fails its operation instead of leaving it open for ever."""
    async with stepped_engine(database, target, guest="refused", stop_seconds=4) as engine:
        instance_id = await engine.request_create()
        await engine.until(instance_id, Phase.HEALTH_CHECKING)
        await console(engine, "stop", instance_id)
        await engine.until(instance_id, Phase.STOPPING, steps=2)
        await engine.until(instance_id, Phase.EXITED)

        assert await operation_status(engine, instance_id) == "failed"


async def test_a_health_check_continues_after_its_job_was_lost(engine: SteppedEngine) -> None:
    """A worker may lose the job with its database; the reminder brings another within a minute."""
    engine.sim.set(guest="status:503")
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.HEALTH_CHECKING)
    await engine.step()
    engine.sim.set(guest="healthy")
    engine.pending.clear()
    async with engine.database.connection() as connection:
        await connection.execute("DELETE FROM corral_pgqueuer")

    await engine.until(instance_id, Phase.READY, steps=40)


async def test_what_answers_after_its_checks_failed_becomes_ready(engine: SteppedEngine) -> None:
    """A model that took an hour to load is of use, and billed; it is checked ever more rarely until then."""
    engine.sim.set(guest="refused")
    instance_id = await engine.request_create(IMPATIENT)
    failed = await engine.until(instance_id, Phase.FAILED, steps=60)
    assert failed.failure is not None
    assert failed.failure.code == "HEALTH_CHECK_TIMEOUT"
    assert failed.health is not None
    await engine.steps(60, seconds=60)
    later = await engine.get(instance_id)
    assert later.phase is Phase.FAILED
    assert later.health is not None
    assert 5 <= later.health.checks - failed.health.checks <= 12, "30 s after it failed, then twice as long, to 10 min"

    engine.sim.set(guest="healthy")
    healed = await engine.until(instance_id, Phase.READY, steps=15, seconds=60)

    assert healed.failure is None
    assert healed.ready_at is not None


async def test_a_target_port_that_is_not_mapped_is_an_error(engine: SteppedEngine, ready: InstanceId) -> None:
    """Without it nothing would be checked, and the instance called ready all the same."""
    await engine.ask(OperationKind.STOP, ready)
    await engine.until(ready, Phase.EXITED)
    await engine.ask(OperationKind.START, ready, CommandOptions(target_port=9999))
    failed = await engine.until(ready, Phase.FAILED)

    assert failed.failure is not None
    assert failed.failure.code == "HEALTH_CHECK_FAILED"
    assert failed.failure.message == "targetPort 9999 is not mapped, so it cannot be checked: mapped are 22, 8888"
    await engine.steps(10, seconds=30)
    assert await engine.phase(ready) is Phase.FAILED


async def test_a_refused_start_reports_only_that_it_failed(engine: SteppedEngine, ready: InstanceId) -> None:
    """The machine was stopped all the while: it neither started nor stopped."""
    await engine.ask(OperationKind.STOP, ready)
    await engine.until(ready, Phase.EXITED)
    async with engine.database.connection() as connection:
        before = await connection.fetchval("SELECT max(id) FROM corral_events")
    (machine,) = engine.sim.instances()
    engine.sim.set_stock(machine.order.product_id, machine.order.cluster_id, 0)
    await engine.ask(OperationKind.START, ready)
    await engine.until(ready, Phase.EXITED, steps=70, seconds=10)

    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT type FROM corral_events WHERE id > $1 ORDER BY id", before)
    reported = [row["type"].removeprefix("instance.") for row in rows]
    assert [name for name in reported if name != "changed"] == ["startup_initiated", "startup_failed"]
