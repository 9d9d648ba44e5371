"""Every step of every flow fails once, and every job runs twice; each time all ends well."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta

import pytest
from support.engines.audit_lines import LINE, keyed
from support.engines.engine_steps import REQUEST, RESERVED, WITH_SECRETS
from support.engines.fault_engine import FaultEngine, FaultEnvironment
from support.histories.script import Mishap
from support.histories.steps import Flow, every_job_runs_twice, every_step_fails_once

from corral.domain.budgets.budget import Budget, BudgetPeriod
from corral.domain.errors import BudgetExceededError
from corral.domain.events import Change, event_drafts
from corral.domain.instance import Instance
from corral.domain.leases.lease import Lease, Schedule
from corral.domain.lifecycle.creation import may_be_created
from corral.domain.operation import OperationKind
from corral.engine.budgets.book import BudgetBook
from corral.engine.events.publisher import EventPublisher, Writer
from corral.store.server.target import DatabaseTarget
from corral.store.sql.combined_statement import Write
from corral.store.tables import events, instances, sealed_secrets

MISHAPS = (
    Mishap.KILLED_BEFORE,
    Mishap.KILLED_AFTER,
    Mishap.AWAY_BEFORE,
    Mishap.AWAY_AFTER,
    Mishap.REFUSED,
    Mishap.ERROR_500,
    Mishap.LOST_REPLY,
    Mishap.HELD_BACK_KILLED,
    Mishap.SEEN_MEANWHILE,
)


async def create(engine: FaultEngine) -> None:
    """From a create request to ready."""
    await engine.request_create()
    await engine.work()
    for _ in range(4):
        await engine.step()


async def create_with_secrets(engine: FaultEngine) -> None:
    """From a create request with secrets to ready: each machine has them, and they are stored no longer than needed."""
    await engine.request_create(WITH_SECRETS)
    await engine.work()
    for _ in range(4):
        await engine.step()


async def delete(engine: FaultEngine) -> None:
    """From ready to terminated."""
    with engine.script.silently():
        await create(engine)
    await engine.request_delete(engine.requested[0])
    await engine.work()
    for _ in range(4):
        await engine.step()


async def delete_in_doubt(engine: FaultEngine) -> None:
    """Deleted before it is known whether it exists."""
    engine.exchange.lose_next = "create"
    with engine.script.silently():
        await engine.request_create(WITH_SECRETS)
        await engine.work()
    await engine.request_delete(engine.requested[0])
    await engine.work()
    for _ in range(5):
        await engine.step()


async def health(engine: FaultEngine) -> None:
    """Unhealthy for a while, then healthy."""
    engine.prober.healthy = False
    with engine.script.silently():
        await engine.request_create()
        await engine.work()
        await engine.step()
        await engine.step()
    await engine.step()
    await engine.step()
    engine.prober.healthy = True
    await engine.step()
    await engine.step()


async def _asked(engine: FaultEngine, kind: OperationKind) -> None:
    assert await engine.ask(kind, engine.requested[0]), f"a {kind} was refused"
    await engine.work()
    for _ in range(4):
        await engine.step()


async def stop(engine: FaultEngine) -> None:
    """From ready to exited."""
    with engine.script.silently():
        await create(engine)
    await _asked(engine, OperationKind.STOP)


async def start(engine: FaultEngine) -> None:
    """From exited to ready."""
    with engine.script.silently():
        await stop(engine)
    await _asked(engine, OperationKind.START)


async def restart(engine: FaultEngine) -> None:
    """From ready to ready."""
    with engine.script.silently():
        await create(engine)
    await _asked(engine, OperationKind.RESTART)


async def stop_while_starting(engine: FaultEngine) -> None:
    """A start with a lost answer, and then a stop."""
    with engine.script.silently():
        await stop(engine)
        engine.exchange.lose_next = "start"
        await engine.ask(OperationKind.START, engine.requested[0])
        await engine.work()
    await _asked(engine, OperationKind.STOP)


async def lease_end(engine: FaultEngine) -> None:
    """From ready to exited, by a notice and then the end of the lease."""
    with engine.script.silently():
        await engine.request_create(lease=Lease(max_duration=timedelta(minutes=10), grace=timedelta(minutes=2)))
        await engine.work()
        for _ in range(4):
            await engine.step()
    await engine.step(8 * 60.0)
    for _ in range(3):  # a notice that was given late ends it later
        await engine.step(2 * 60.0)
    for _ in range(4):
        await engine.step()


async def scheduled_start(engine: FaultEngine) -> None:
    """From ready to exited and to ready again, by the schedule of the lease."""
    with engine.script.silently():
        await engine.request_create(lease=Lease(schedule=Schedule(stop="10 * * * *", start="20 * * * *")))
        await engine.work()
        for _ in range(4):
            await engine.step()
        await engine.step(600.0)
        for _ in range(6):
            await engine.step()
    await engine.step(600.0)
    for _ in range(4):
        await engine.step()


async def create_within_budget(engine: FaultEngine) -> None:
    """From a request with a key, repeated until it is answered, to ready, in a budget for one: it reserves once."""
    budget = Budget(name="one", scope="all", period=BudgetPeriod.TOTAL, limit_micro_usd=RESERVED)
    await BudgetBook(database=engine.environment.database, clock=engine.clock).put(budget, LINE)
    made = await engine.repeated(lambda parts: parts.create.create(REQUEST, keyed("k")))
    assert made is not None
    with pytest.raises(BudgetExceededError), engine.script.silently():
        await engine.parts.create.create(REQUEST, keyed("another"))
    await engine.work()
    for _ in range(4):
        await engine.step()


FLOWS = pytest.mark.parametrize(
    "flow",
    [
        *(create, create_with_secrets, delete, delete_in_doubt, health, stop, start, restart, stop_while_starting),
        *(lease_end, scheduled_start, create_within_budget),
    ],
)


@pytest.fixture
async def environment(target: DatabaseTarget) -> AsyncGenerator[FaultEnvironment]:
    environment = await FaultEnvironment.open(target)
    yield environment
    await environment.close()


@FLOWS
async def test_every_step_fails_once(environment: FaultEnvironment, flow: Flow) -> None:
    """
    Whatever fails, and at any step, the end is the same and nothing is billed twice.

    That includes a death right after each step: the job is taken over, and what was done by then is not done twice.
    """
    assert await every_step_fails_once(environment, flow, MISHAPS) == []


@FLOWS
async def test_every_job_runs_twice(environment: FaultEnvironment, flow: Flow) -> None:
    """A job delivered twice publishes nothing twice."""
    assert await every_job_runs_twice(environment, flow) == []


async def test_an_event_outside_the_commit_of_its_change_is_found(
    environment: FaultEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of the trial: each group of writes is a step, so a death between two of them shows."""

    async def write_in_two(_: object, writer: Writer, writes: Sequence[Write], changes: Sequence[Change]) -> bool:
        row = await writer.run(writes, "SELECT EXISTS (SELECT FROM updated_instance) AS is_updated")
        if row["is_updated"]:
            await writer.run([events.append(event_drafts(changes))], "SELECT count(*) FROM new_events")
        return bool(row["is_updated"])

    monkeypatch.setattr(EventPublisher, "write_grouped", write_in_two)
    found = await every_step_fails_once(environment, create, (Mishap.KILLED_BEFORE,))
    assert {trial.what for trial in found if "reported" in trial.trouble} == {"commit"}


async def test_a_reservation_that_is_kept_after_a_stop_is_found(
    environment: FaultEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of the trial: writers that store what the record says, and not what is still held."""
    monkeypatch.setattr(instances, "held", lambda instance: instance.reservation)
    assert await every_step_fails_once(environment, stop, (Mishap.KILLED_BEFORE,))


async def test_secrets_forgotten_while_a_create_is_in_doubt_are_found(
    environment: FaultEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of the trial: an engine that forgets them with the intent cannot send a second call."""

    def is_unsent(instance: Instance) -> bool:
        return may_be_created(instance) and not instance.create_in_doubt

    monkeypatch.setattr(sealed_secrets, "may_be_created", is_unsent)
    assert await every_step_fails_once(environment, create_with_secrets, (Mishap.KILLED_BEFORE,))
