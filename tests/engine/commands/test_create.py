"""Commands on the real database: a create is recorded completely or not."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from support.clock.waiting import until
from support.engines.audit_lines import CONTEXT, keyed
from support.engines.command_env import CommandEnv, a_create_request

from corral.domain.errors import NotFoundError
from corral.domain.idempotency import KeyRow
from corral.domain.instance import CreateRequest, InstanceId, OperationId, ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import Operation, OperationKind, OperationStatus
from corral.engine.commands.change import AcceptedCommand
from corral.engine.commands.create import CreatedInstance
from corral.jobs.registry import Priority
from corral.store.session.database import Database
from corral.store.tables import instances
from corral.store.tables.fleet import ready_times

NOTHING = {"instances": 0, "operations": 0, "events": 0, "pgqueuer": 0, "idempotency": 0}


@pytest.fixture
def env(database: Database) -> CommandEnv:
    return CommandEnv(database)


async def created(env: CommandEnv, name: str = "trainer") -> CreatedInstance:
    made = await env.commands.create(a_create_request(name), CONTEXT)
    assert isinstance(made, CreatedInstance)
    return made


async def test_a_create_stores_an_instance_an_operation_an_event_and_a_job(env: CommandEnv) -> None:
    """All in one transaction, and nothing else: the provider is asked about its catalog only."""
    made = await created(env)
    known = await env.queries.instance(made.instance.id)
    (job,) = await env.queue.find()

    assert await env.counts() == {**NOTHING, "instances": 1, "operations": 1, "events": 1, "pgqueuer": 1}
    assert known.instance == made.instance
    assert known.operation == made.operation
    assert re.fullmatch(r"inst_[0-9a-z]{20}", made.instance.id)
    assert re.fullmatch(r"op_[0-9a-z]{20}", made.operation.id)
    assert (made.instance.goal, made.instance.phase) == (Goal.RUNNING, Phase.CREATING)
    assert made.instance.deadline_at == env.clock.now() + timedelta(minutes=20)
    assert made.estimated_ready_at == env.clock.now() + timedelta(minutes=4)
    assert made.operation.stamps == {"startRequested": env.clock.now()}
    assert (job.type, job.priority) == ("create_instance", Priority.HIGH)
    assert job.payload == {
        "instanceId": made.instance.id,
        "name": "trainer",
        "productName": "RTX 4090 24GB",
        "templateId": "204511",
        "gpuNum": 1,
        "rootfsSize": 60,
        "region": "CN-HK-01",
        "startTime": "2030-01-01T00:00:00.000Z",
        "maxWaitTime": 20 * 60 * 1000,
    }


async def test_product_and_template_are_looked_up_at_the_same_time(env: CommandEnv) -> None:
    """One slow answer is waited for, not two."""
    env.provider.open.clear()
    creating = asyncio.create_task(env.commands.create(a_create_request(), CONTEXT))
    await until(lambda: {"clusters", "template"} <= set(env.provider.calls))
    env.provider.open.set()

    assert isinstance(await creating, CreatedInstance)


@pytest.mark.parametrize(
    ("order", "code"),
    [
        (replace(a_create_request(), product_name="RTX 9090"), "PRODUCT_NOT_FOUND"),
        (replace(a_create_request(), max_micro_usd_per_gpu=1), "NO_OPTIMAL_PRODUCT_ANY_REGION"),
        (replace(a_create_request(), template_id="7"), "TEMPLATE_NOT_FOUND"),
    ],
)
async def test_what_cannot_be_had_is_refused_before_anything_is_written(
    env: CommandEnv, order: CreateRequest, code: str
) -> None:
    """An immediate 404."""
    with pytest.raises(NotFoundError) as refusal:
        await env.commands.create(order, keyed("k"))

    assert refusal.value.code == code
    assert await env.counts() == NOTHING


async def test_a_job_that_cannot_be_enqueued_leaves_no_instance(database: Database) -> None:
    """All or nothing, the idempotency key included; and the next one is not disturbed."""
    env = CommandEnv(database)
    env.registry._types.clear()
    with pytest.raises(ValueError, match="no job type"):
        await env.commands.create(a_create_request(), keyed("k"))

    assert await env.counts() == NOTHING


async def test_concurrent_creates_are_committed_together(env: CommandEnv) -> None:
    """A burst takes a few transactions; each create gets its own response."""
    await created(env)
    made = await asyncio.gather(*(created(env, f"n{n}") for n in range(300)))

    assert [each.instance.request.name for each in made] == [f"n{n}" for n in range(300)]
    assert len({each.instance.id for each in made}) == 300
    assert await env.counts() == {
        "instances": 301,
        "operations": 301,
        "events": 301,
        "pgqueuer": 301,
        "idempotency": 0,
    }
    async with env.database.connection() as connection:
        assert await connection.fetchval("SELECT count(DISTINCT xmin::text) FROM corral_instances") <= 100


def a_create(began: datetime, seconds: float) -> Operation:
    return Operation(
        id=OperationId("op_1"),
        instance_id=InstanceId("inst_1"),
        kind=OperationKind.CREATE,
        status=OperationStatus.COMPLETED,
        created_at=began,
        stamps={"ready": began + timedelta(seconds=seconds)},
    )


async def test_the_estimate_is_the_median_of_those_before(env: CommandEnv) -> None:
    """Once an instance became ready, four minutes is no longer the estimate."""
    async with env.database.connection() as connection:
        for seconds in (10.0, 50.0, 90.0):
            await ready_times.add("RTX 4090 24GB", a_create(env.clock.now(), seconds)).run(connection)
    made = await created(env)

    assert made.estimated_ready_at == env.clock.now() + timedelta(seconds=50)


async def test_one_key_makes_one_instance_however_many_ask_at_once(env: CommandEnv) -> None:
    """In one process and in two; the losers get the winner's answer."""
    other = env.new_commands(env.clock)
    outcomes = await asyncio.gather(
        *(commands.create(a_create_request(), keyed("k")) for commands in (env.commands, other) for _ in range(20))
    )
    (winner,) = (outcome for outcome in outcomes if isinstance(outcome, CreatedInstance))
    rows = [outcome for outcome in outcomes if isinstance(outcome, KeyRow)]

    assert await env.counts() == {"instances": 1, "operations": 1, "events": 1, "pgqueuer": 1, "idempotency": 1}
    assert {row.answer for row in rows} == {winner.response}
    assert len(rows) == 39


async def test_many_keys_in_any_order_do_not_lock_each_other_out(env: CommandEnv) -> None:
    """Two processes that get the same requests in opposite orders would wait in a circle."""
    other = env.new_commands(env.clock)
    keys = [f"k{n}" for n in range(40)]
    for commands in (env.commands, other):
        await commands.create(a_create_request(), CONTEXT)
    outcomes = await asyncio.gather(
        *(env.commands.create(a_create_request(), keyed(key)) for key in keys),
        *(other.create(a_create_request(), keyed(key)) for key in reversed(keys)),
    )

    assert sum(isinstance(outcome, CreatedInstance) for outcome in outcomes) == 40
    assert await env.count("corral_instances") == 42


async def test_a_key_is_free_again_after_a_day(env: CommandEnv) -> None:
    """And not a moment earlier."""
    first = await env.commands.create(a_create_request(), keyed("k"))
    env.clock.advance(24 * 3600 - 1)
    repeated = await env.commands.create(a_create_request(), keyed("k"))
    env.clock.advance(2)
    later = await env.commands.create(a_create_request(), keyed("k"))

    assert [type(each) for each in (first, repeated, later)] == [CreatedInstance, KeyRow, CreatedInstance]


async def test_a_plan_shows_everything_and_changes_nothing(env: CommandEnv) -> None:
    """Also when nothing can be had."""
    ranking = await env.commands.plan(a_create_request())
    none = await env.commands.plan(replace(a_create_request(), max_micro_usd_per_gpu=1))

    assert [candidate.region for candidate in ranking.candidates] == ["CN-HK-01", "AS-SGP-02"]
    assert none.candidates == ()
    assert none.rejected
    assert await env.counts() == NOTHING


async def test_a_deletion_is_recorded_with_its_job_and_ends_what_was_asked_before(env: CommandEnv) -> None:
    """The instance is not gone: it is to go."""
    made = await created(env)
    gone = await env.delete(made.instance.id)
    known = await env.queries.instance(made.instance.id)
    asked = await env.queries.operations_of(made.instance.id)

    assert isinstance(gone, AcceptedCommand)
    assert (known.instance.goal, known.instance.phase) == (Goal.GONE, Phase.DELETING)
    assert known.instance.deadline_at is None
    assert known.operation is not None
    assert known.operation.id == gone.instance.operation_id == known.instance.operation_id
    assert {operation.kind: operation.status for operation in asked} == {
        OperationKind.CREATE: OperationStatus.CANCELLED,
        OperationKind.DELETE: OperationStatus.INITIATED,
    }
    assert [job.type for job in await env.queue.find()] == ["release_instance", "create_instance"]
    assert await env.count("corral_events") == 2


async def test_deleting_twice_is_deleting_once(env: CommandEnv) -> None:
    """By our id, by the provider's, at the same time or later."""
    made = await created(env)
    async with env.database.transaction() as connection:
        given = replace(made.instance, provider_id=ProviderId("p-1"))
        assert await instances.update(given, wake_at=None).run(connection)
    outcomes = await asyncio.gather(*(env.delete(each) for each in (made.instance.id, "p-1") * 5))
    await env.delete("p-1")

    assert len({outcome.instance.operation_id for outcome in outcomes if isinstance(outcome, AcceptedCommand)}) == 1
    assert await env.count("corral_operations") == 2
    assert await env.count("corral_events") == 2


async def test_a_deletion_succeeds_among_other_writers(env: CommandEnv) -> None:
    """It holds the row from its read to its write, so a busy engine cannot keep it out."""
    made = await created(env)

    async def meddle() -> None:
        for _ in range(30):
            async with env.database.transaction() as connection:
                found = await instances.load(connection, made.instance.id)
                assert found is not None
                await connection.execute(
                    "UPDATE corral_instances SET generation = generation + 1 WHERE id = $1", found.id
                )

    _, outcome = await asyncio.gather(meddle(), env.delete(made.instance.id))

    assert isinstance(outcome, AcceptedCommand)
    assert await env.count("corral_operations") == 2


@pytest.mark.parametrize("unknown", ["inst_missing", "", "\x00", "x" * 5000, "a\nb"])
async def test_what_is_not_there_cannot_be_deleted_or_read(env: CommandEnv, unknown: str) -> None:
    """Whatever is in the path."""
    for ask in (env.delete, env.queries.instance, env.queries.operations_of):
        with pytest.raises(NotFoundError) as refusal:
            await ask(unknown)

        assert refusal.value.code == "INSTANCE_NOT_FOUND"
    with pytest.raises(NotFoundError, match="operation"):
        await env.queries.operation(unknown)


async def test_a_deletion_with_a_key_is_answered_once(env: CommandEnv) -> None:
    """Its answer is stored with it."""
    made = await created(env)
    first = await env.delete(made.instance.id, keyed("k", b"f"))
    second = await env.delete(made.instance.id, keyed("k", b"f"))

    assert isinstance(first, AcceptedCommand)
    assert (first.response.status, first.instance.operation_id.encode() in first.response.body) == (202, True)
    assert second == KeyRow(key="k", fingerprint=b"f", answer=first.response)


async def test_a_read_sees_what_the_same_process_just_wrote(env: CommandEnv) -> None:
    """The cache holds it, and lets go of it when it changes."""
    made = await created(env)
    before = await env.queries.instance(made.instance.id)
    again = await env.queries.instance(made.instance.id)
    await env.delete(made.instance.id)
    after = await env.queries.instance(made.instance.id)

    assert before is again
    assert after.instance.phase is Phase.DELETING
