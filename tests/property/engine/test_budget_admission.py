"""
Random histories of budgets, creates, ends and time on the real database, judged by arithmetic of their own.

The judge knows what was admitted and what has ended. It recomputes what is reserved from that alone, and says of every
answer whether it was right: no limit is exceeded by what is admitted, and nothing is refused that would have fitted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.engines.audit_lines import LINE
from support.engines.command_env import CommandEnv, a_create_request
from support.engines.fault_engine import FaultEnvironment
from support.engines.fault_runner import fault_environment
from support.engines.known import altered

from corral.domain.budgets.budget import Budget, BudgetPeriod, LimitAction
from corral.domain.errors import BudgetExceededError
from corral.domain.instance import InstanceId, Labels
from corral.domain.lifecycle.phases import Phase
from corral.engine.commands.context import CommandContext
from corral.engine.commands.create import CreatedInstance
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Connection
from corral.store.tables import instances
from corral.store.tables.costs import budgets

PRICE = 180_000
SCOPES = ("all", "label:team=a", "label:team=b", "key:olga")
TEAMS: tuple[Labels, ...] = ((), (("team", "a"),), (("team", "b"),))


@dataclass
class Held:
    """What the judge knows of an instance that was admitted and has not ended."""

    team: Labels
    owner: str | None

    def is_in(self, scope: str) -> bool:
        if scope == "all":
            return True
        return scope in {f"key:{self.owner}", *(f"label:{key}={value}" for key, value in self.team)}


@dataclass
class World:
    """One history: two processes on one database, and what the judge knows."""

    env: CommandEnv
    other: Any
    budgets: dict[str, Budget] = field(default_factory=dict)
    held: dict[InstanceId, Held] = field(default_factory=dict)

    def used(self, budget: Budget) -> int:
        return PRICE * sum(each.is_in(budget.scope) for each in self.held.values())


class BudgetHistory(RuleBasedStateMachine):
    """One history; `stage` is where it is played."""

    stage: ClassVar[tuple[FaultEnvironment, asyncio.Runner]]

    def __init__(self) -> None:
        super().__init__()
        self.environment, self.runner = self.stage

    @initialize()
    def begin(self) -> None:
        async def clean() -> World:
            async with self.environment.database.connection() as connection:
                await connection.execute("DELETE FROM corral_instances; DELETE FROM corral_budgets")
            env = CommandEnv(self.environment.database)
            return World(env=env, other=env.new_commands(env.clock))

        self.world = self.runner.run(clean())

    @rule(
        name=st.sampled_from("xyz"),
        scope=st.sampled_from(SCOPES),
        creates=st.integers(1, 4),
        on_limit=st.sampled_from(LimitAction),
    )
    def put(self, name: str, scope: str, creates: int, on_limit: LimitAction) -> None:
        budget = Budget(
            name=name,
            scope=scope,
            period=BudgetPeriod.TOTAL,
            limit_micro_usd=creates * PRICE,
            on_limit=on_limit,
        )
        self.runner.run(self.world.env.engine.budgets.put(budget, LINE))
        self.world.budgets[name] = budget

    @precondition(lambda self: self.world.budgets)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.budgets)))
        self.runner.run(self.world.env.engine.budgets.remove(name, LINE))
        del self.world.budgets[name]

    @rule(team=st.sampled_from(TEAMS), owner=st.sampled_from([None, "olga"]), elsewhere=st.booleans())
    def create(self, team: Labels, owner: str | None, *, elsewhere: bool) -> None:
        commands = self.world.other if elsewhere else self.world.env.commands
        wanted = Held(team, owner)
        refusing = sorted(
            budget.name
            for budget in self.world.budgets.values()
            if wanted.is_in(budget.scope)
            and budget.on_limit is not LimitAction.NOTIFY
            and self.world.used(budget) + PRICE > budget.limit_micro_usd
        )
        context = CommandContext(line=lambda **_: LINE, caller=owner)
        if refusing:
            with pytest.raises(BudgetExceededError) as refusal:
                self.runner.run(commands.create(a_create_request(), context, labels=team))
            assert refusal.value.details["budget"] == refusing[0]
            return
        made = self.runner.run(commands.create(a_create_request(), context, labels=team))
        assert isinstance(made, CreatedInstance)
        self.world.held[made.instance.id] = wanted

    @precondition(lambda self: self.world.held)
    @rule(data=st.data(), phase=st.sampled_from([Phase.FAILED, Phase.TERMINATED]))
    def end(self, data: st.DataObject, phase: Phase) -> None:
        """The create fails without a machine, or is deleted before it."""
        instance_id = data.draw(st.sampled_from(sorted(self.world.held)))

        async def write() -> None:
            async with self.environment.database.connection() as connection:
                found = await instances.load(connection, instance_id)
                assert found is not None
                assert await instances.update(altered(found, phase=phase), wake_at=None).run(connection)

        self.runner.run(write())
        del self.world.held[instance_id]

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 3600.0]))
    def wait(self, seconds: float) -> None:
        self.world.env.clock.advance(seconds)

    @invariant()
    def counts(self) -> None:
        """What is shown is what the judge has, and the stored bound is never below it while it counts."""
        world = self.world

        async def stored() -> dict[str, int]:
            async with self.environment.database.connection() as connection:
                rows = await connection.fetch(
                    "SELECT name, counted_micro_usd FROM corral_budgets WHERE counted_until > $1",
                    world.env.clock.now(),
                )
            return {row["name"]: row["counted_micro_usd"] for row in rows}

        shown = {each.budget.name: each for each in self.runner.run(world.env.engine.budgets.all())}
        assert {name: (one.spent, one.reserved) for name, one in shown.items()} == {
            name: (0, world.used(budget)) for name, budget in world.budgets.items()
        }
        bounds = self.runner.run(stored())
        low = {name: bound for name, bound in bounds.items() if bound < world.used(world.budgets[name])}
        assert not low, f"counted less than is used: {low}"


def play(server: DatabaseTarget) -> None:
    """Play as many histories as half the examples of the profile."""
    chosen = settings(max_examples=settings().max_examples // 2, stateful_step_count=25)
    with fault_environment(server) as stage:
        history = type("PlayedHistory", (BudgetHistory,), {"stage": stage})
        run_state_machine_as_test(history, settings=chosen)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quietly")
def test_no_history_admits_beyond_a_limit_or_refuses_what_fits(server: DatabaseTarget) -> None:
    """With budgets that come and go, two processes, any order, and any time between."""
    play(server)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quietly")
def test_a_count_that_leaves_out_what_it_admits_is_found_out(
    server: DatabaseTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof of the proof: then the next request is admitted as if the one before had not been."""
    note = budgets.note_count

    async def note_less(connection: Connection, name: str, used: int, until: datetime) -> None:
        await note(connection, name, used - PRICE, until)

    monkeypatch.setattr(budgets, "note_count", note_less)
    with pytest.raises(BaseException, match=r"counted less than is used|DID NOT RAISE"):
        play(server)
