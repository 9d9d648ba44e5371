"""What is not usable is not called ready; what becomes usable late is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from support.stepped_engine import ORDER, Herd, herding

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.lifecycle.tables import Phase
from corral.domain.operation import OperationKind
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import operations

IMPATIENT = replace(ORDER, health=replace(ORDER.health, retry_attempts=1, retry_delay_ms=1000, max_wait_ms=30_000))


@pytest.fixture
async def herd(database: Database, target: DatabaseTarget) -> AsyncGenerator[Herd]:
    async with herding(database, target) as herd:
        yield herd


@pytest.fixture
async def ready(herd: Herd) -> InstanceId:
    wish = await herd.wish()
    await herd.until(wish, Phase.READY)
    return wish


async def console(herd: Herd, command: str, instance_id: InstanceId) -> None:
    """What a person does in the provider's console."""
    provider_id = (await herd.get(instance_id)).provider_id
    status, _ = await herd.sim.ask(f"/gpu/instance/{command}", {"instanceId": provider_id})
    assert status == 200


async def operation_status(herd: Herd, instance_id: InstanceId) -> str:
    async with herd.database.connection() as connection:
        found = await operations.load(connection, (await herd.get(instance_id)).operation_id)
    assert found is not None
    return found.status


async def test_a_frozen_machine_is_not_ready_until_it_thaws(herd: Herd, ready: InstanceId) -> None:
    """An account in debt, say; nothing of it can be used meanwhile, and nothing is sent to the provider."""
    herd.sim.fault("freeze", name="corral-", seconds=20)
    await herd.until(ready, Phase.STOPPING, steps=2)
    await herd.until(ready, Phase.READY)

    calls = herd.sim.calls()["endpoints"]
    assert not {"stop", "start", "delete"} & set(calls)


async def test_a_machine_that_is_removed_in_the_console_is_not_ready(herd: Herd, ready: InstanceId) -> None:
    """It goes while it is still listed; then it has vanished."""
    herd.sim.set(remove_seconds=20)
    await console(herd, "delete", ready)
    await herd.until(ready, Phase.STOPPING, steps=2)
    failed = await herd.until(ready, Phase.FAILED, steps=60)

    assert failed.failure is not None
    assert failed.failure.code == "INSTANCE_VANISHED"


async def test_a_restart_in_the_console_that_ends_stopped_is_exited(herd: Herd, ready: InstanceId) -> None:
    """It did not come up again; the provider says exited, and it stays so."""
    herd.sim.set(restart_seconds=4, stop_seconds=0.1)
    await console(herd, "restart", ready)
    await herd.until(ready, Phase.RESTARTING, steps=2)
    herd.sim.advance(4)
    await console(herd, "stop", ready)
    await herd.step()
    assert await herd.phase(ready) is Phase.RESTARTING, "a machine that restarts may be seen stopped for a moment"
    exited = await herd.until(ready, Phase.EXITED, steps=40)

    assert exited.failure is None
    assert await operation_status(herd, ready) == "completed"


async def test_a_restart_of_ours_that_ends_stopped_fails(herd: Herd, ready: InstanceId) -> None:
    """Its operation says so, long before its deadline."""
    herd.sim.set(restart_seconds=4, stop_seconds=0.1)
    await herd.ask(OperationKind.RESTART, ready)
    await herd.steps(2)
    herd.sim.advance(4)
    await console(herd, "stop", ready)
    exited = await herd.until(ready, Phase.EXITED, steps=40)

    assert exited.failure is not None
    assert exited.failure.code == "STARTUP_FAILED"
    assert await operation_status(herd, ready) == "failed"


async def test_a_create_that_is_stopped_in_the_console_ends(database: Database, target: DatabaseTarget) -> None:
    """Seen stopping first, it still fails its operation instead of leaving it open for ever."""
    async with herding(database, target, guest="refused", stop_seconds=4) as herd:
        wish = await herd.wish()
        await herd.until(wish, Phase.HEALTH_CHECKING)
        await console(herd, "stop", wish)
        await herd.until(wish, Phase.STOPPING, steps=2)
        await herd.until(wish, Phase.EXITED)

        assert await operation_status(herd, wish) == "failed"


async def test_a_health_check_whose_job_is_lost_goes_on(herd: Herd) -> None:
    """A worker may lose the job with its database; the reminder brings another within a minute."""
    herd.sim.set(guest="status:503")
    wish = await herd.wish()
    await herd.until(wish, Phase.HEALTH_CHECKING)
    await herd.step()
    herd.sim.set(guest="healthy")
    herd.pending.clear()
    async with herd.database.connection() as connection:
        await connection.execute("DELETE FROM corral_pgqueuer")

    await herd.until(wish, Phase.READY, steps=40)


async def test_what_answers_after_its_checks_failed_becomes_ready(herd: Herd) -> None:
    """A model that took an hour to load is of use, and billed; it is checked ever more rarely until then."""
    herd.sim.set(guest="refused")
    wish = await herd.wish(IMPATIENT)
    failed = await herd.until(wish, Phase.FAILED, steps=60)
    assert failed.failure is not None
    assert failed.failure.code == "HEALTH_CHECK_TIMEOUT"
    assert failed.health is not None
    await herd.steps(60, seconds=60)
    later = await herd.get(wish)
    assert later.phase is Phase.FAILED
    assert later.health is not None
    assert 5 <= later.health.checks - failed.health.checks <= 12, "30 s after it failed, then twice as long, to 10 min"

    herd.sim.set(guest="healthy")
    healed = await herd.until(wish, Phase.READY, steps=15, seconds=60)

    assert healed.failure is None
    assert healed.ready_at is not None


async def test_a_target_port_that_is_not_mapped_is_an_error(herd: Herd, ready: InstanceId) -> None:
    """Without it nothing would be checked, and the instance called ready all the same."""
    await herd.ask(OperationKind.STOP, ready)
    await herd.until(ready, Phase.EXITED)
    await herd.ask(OperationKind.START, ready, CommandOptions(target_port=9999))
    failed = await herd.until(ready, Phase.FAILED)

    assert failed.failure is not None
    assert failed.failure.code == "HEALTH_CHECK_FAILED"
    assert failed.failure.message == "targetPort 9999 is not mapped, so it cannot be checked: mapped are 22, 8888"
    await herd.steps(10, seconds=30)
    assert await herd.phase(ready) is Phase.FAILED


async def test_a_refused_start_tells_only_that_it_failed(herd: Herd, ready: InstanceId) -> None:
    """The machine was stopped all the while: it neither started nor stopped."""
    await herd.ask(OperationKind.STOP, ready)
    await herd.until(ready, Phase.EXITED)
    async with herd.database.connection() as connection:
        before = await connection.fetchval("SELECT max(id) FROM corral_events")
    (machine,) = herd.sim.instances()
    herd.sim.set_stock(machine.order.product_id, machine.order.cluster_id, 0)
    await herd.ask(OperationKind.START, ready)
    await herd.until(ready, Phase.EXITED, steps=70, seconds=10)

    async with herd.database.connection() as connection:
        rows = await connection.fetch("SELECT type FROM corral_events WHERE id > $1 ORDER BY id", before)
    told = [row["type"].removeprefix("instance.") for row in rows]
    assert [name for name in told if name != "changed"] == ["startup_initiated", "startup_failed"]
