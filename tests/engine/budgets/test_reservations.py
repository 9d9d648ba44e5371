"""Reservations on the real database: what is admitted by how many processes, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from support.clock.waiting import until
from support.database.usage_rows import add_usage
from support.engines.audit_lines import CONTEXT, LINE, keyed
from support.engines.command_env import CommandEnv, a_create_request

from corral.domain.budgets.budget import Budget, BudgetPeriod, LimitAction, Standing
from corral.domain.errors import BudgetExceededError
from corral.domain.idempotency import KeyRow
from corral.domain.instance import Labels
from corral.engine.commands.context import CommandContext
from corral.engine.commands.create import CreatedInstance
from corral.store.session.database import Database
from corral.store.tables.costs import budgets

PRICE = 180_000
"""Micro-USD an hour, of the spot offer that a create is expected to get."""
OLGA = CommandContext(line=partial(replace, LINE), caller="olga")
VISION: Labels = (("team", "vision"),)


@pytest.fixture
def env(database: Database) -> CommandEnv:
    return CommandEnv(database)


def budget(name: str, scope: str = "all", *, creates: int, on_limit: LimitAction = LimitAction.REFUSE) -> Budget:
    return Budget(name=name, scope=scope, period=BudgetPeriod.DAY, limit_micro_usd=creates * PRICE, on_limit=on_limit)


async def put(env: CommandEnv, *wanted: Budget) -> None:
    for each in wanted:
        await env.engine.budgets.put(each, LINE)


async def standings(env: CommandEnv) -> dict[str, Standing]:
    return {each.budget.name: each for each in await env.engine.budgets.all()}


async def test_a_hundred_creates_in_two_processes_get_what_a_budget_for_seven_allows(env: CommandEnv) -> None:
    """Each counts what was admitted before it, in whatever process; the others are refused with nothing recorded."""
    await put(env, budget("seven", creates=7))
    other = env.new_commands(env.clock)
    both = [env.commands, other]
    outcomes = await asyncio.gather(
        *(both[n % 2].create(a_create_request(f"n{n}"), CONTEXT) for n in range(100)), return_exceptions=True
    )

    refused = [each for each in outcomes if isinstance(each, BudgetExceededError)]
    assert sum(isinstance(each, CreatedInstance) for each in outcomes) == 7
    assert len(refused) == 93
    assert refused[0].details == {
        "budget": "seven",
        "limit": 1.26,
        "spent": 0.0,
        "reserved": 1.26,
        "wanted": 0.18,
        "resetsAt": "2030-01-02T00:00:00.000Z",
    }
    counts = await env.counts()
    assert {table: counts[table] for table in ("instances", "operations", "events", "pgqueuer")} == {
        "instances": 7,
        "operations": 7,
        "events": 7,
        "pgqueuer": 7,
    }
    assert (await standings(env))["seven"].reserved == 7 * PRICE


async def test_every_matching_budget_must_allow_a_create_and_only_those_count(env: CommandEnv) -> None:
    """By label, by key and over all: the first by name that refuses is named, and one that only notifies never does."""
    await put(
        env,
        budget("all", creates=5),
        budget("olga", "key:olga", creates=2),
        budget("vision", "label:team=vision", creates=1),
        budget("watched", creates=1, on_limit=LimitAction.NOTIFY),
    )
    await env.commands.create(a_create_request("a"), OLGA, labels=VISION)
    with pytest.raises(BudgetExceededError, match="'vision'"):
        await env.commands.create(a_create_request("b"), CONTEXT, labels=VISION)
    await env.commands.create(a_create_request("c"), OLGA)
    with pytest.raises(BudgetExceededError, match="'olga'"):
        await env.commands.create(a_create_request("d"), OLGA, labels=VISION)
    await asyncio.gather(*(env.commands.create(a_create_request(f"e{n}"), CONTEXT) for n in range(3)))
    with pytest.raises(BudgetExceededError, match="'all'"):
        await env.commands.create(a_create_request("f"), OLGA)

    found = {name: one.reserved // PRICE for name, one in (await standings(env)).items()}
    assert found == {"all": 5, "olga": 2, "vision": 1, "watched": 5}


async def test_a_new_budget_counts_the_creates_before_it(env: CommandEnv) -> None:
    """Reservations are recorded with every create, whether or not a budget exists then."""
    for n in range(3):
        await env.commands.create(a_create_request(f"n{n}"), CONTEXT)
    await put(env, budget("late", creates=4))
    await env.commands.create(a_create_request("fits"), CONTEXT)
    with pytest.raises(BudgetExceededError):
        await env.commands.create(a_create_request("fits not"), CONTEXT)
    await put(env, budget("late", creates=5))

    assert isinstance(await env.commands.create(a_create_request("fits now"), CONTEXT), CreatedInstance)


async def test_a_repetition_reserves_once_and_a_refused_key_may_be_used_again(env: CommandEnv) -> None:
    """The response to the first is replayed; a refusal stores nothing under its key."""
    await put(env, budget("one", creates=1))
    first = await env.commands.create(a_create_request(), keyed("k"))
    again = await env.commands.create(a_create_request(), keyed("k"))
    with pytest.raises(BudgetExceededError):
        await env.commands.create(a_create_request("other"), keyed("other"))

    assert isinstance(first, CreatedInstance)
    assert isinstance(again, KeyRow)
    assert (await standings(env))["one"].reserved == PRICE
    assert await env.count("corral_idempotency") == 1
    await env.delete(first.instance.id)
    await put(env, budget("one", creates=2))
    assert isinstance(await env.commands.create(a_create_request("other"), keyed("other")), CreatedInstance)


async def test_a_group_of_keyed_creates_keeps_the_keys_of_those_that_fit(env: CommandEnv) -> None:
    """Keys, instances and reservations of one group are of the same creates."""
    await put(env, budget("three", creates=3))
    outcomes = await asyncio.gather(
        *(env.commands.create(a_create_request(f"n{n}"), keyed(f"k{n}")) for n in range(20)), return_exceptions=True
    )

    assert sum(isinstance(each, CreatedInstance) for each in outcomes) == 3
    assert await env.count("corral_idempotency") == await env.count("corral_instances") == 3


async def test_a_budget_that_is_set_meanwhile_waits_for_creates_that_did_not_see_it(env: CommandEnv) -> None:
    """So that the next create counts them: the order of the commits is the order that all see."""
    async with env.database.transaction() as creating:
        assert await creating.fetchval("SELECT corral_reserve('{all}', '{1}', now())")
        setting = asyncio.create_task(env.engine.budgets.put(budget("new", creates=1), LINE))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'corral_budgets'::regclass"
        await until(lambda: creating.fetchval(waiting))
        assert not setting.done()
    await setting


async def test_a_count_of_before_the_clock_was_set_back_admits_nothing(env: CommandEnv) -> None:
    """It lasts for two seconds, and not until the clock shows its end again: what was spent since is counted."""
    await put(env, budget("three", creates=3))
    await env.commands.create(a_create_request("first"), CONTEXT)
    env.clock.set_by(-3600)
    async with env.database.connection() as connection:
        now = env.clock.now()
        await add_usage(connection, now - timedelta(hours=2), now, unit_price=24 * PRICE)

    with pytest.raises(BudgetExceededError):
        await env.commands.create(a_create_request("second"), CONTEXT)


async def test_a_create_in_doubt_keeps_its_reservation_for_the_machine_that_it_may_still_make(env: CommandEnv) -> None:
    """What the doubt counts as spent in this period is reserved again once the call proves to have made nothing."""
    await put(env, replace(budget("hourly", creates=3), period=BudgetPeriod.HOUR))
    made = await env.commands.create(a_create_request(), CONTEXT)
    assert isinstance(made, CreatedInstance)
    call = made.instance.id
    async with env.database.connection() as connection:
        await add_usage(
            connection,
            env.clock.now(),
            started_latest=None,
            instance_id=call,
            provider_id=f"{call}:1",
            unit_price=24 * PRICE,
        )
        env.clock.set_by(2.25 * 3600)
        doubted = (await standings(env))["hourly"]
        assert await budgets.drop_paid(connection, env.clock.now()) == 0
        await connection.execute("DELETE FROM corral_usage")
    settled = (await standings(env))["hourly"]

    assert (doubted.spent, doubted.reserved) == (PRICE // 4, PRICE - PRICE // 4)
    assert (settled.spent, settled.reserved) == (0, PRICE)
