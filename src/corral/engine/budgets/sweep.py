"""
Judges every budget once a minute: reports thresholds and limits, and stops machines where a budget says so.

What is reported is stored with its events, under the lock of the budget's row, so that it is reported once a period,
whatever processes run and end. A stop is an ordinary stop, and is repeated for as long as the budget is spent: also
machines that come up later are stopped, unless they are protected.

What may be spent refuses creates and starts, but stops nothing: after an outage it includes hours in which a machine
may have been gone. A stop needs as much to be spent for certain, by what observations show, and a time that the
provider's clock does not contradict: a clock that is set ahead makes every machine as old.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.audit import AuditEntry, budget_entry
from corral.domain.budgets.announcements import due, subject_of
from corral.domain.budgets.budget import Budget, LimitAction, Standing, standing
from corral.domain.errors import GoalRefusedError, NotFoundError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.operation import OperationKind
from corral.domain.placement.pricing import usd_text
from corral.engine.commands.change import ChangeInstance
from corral.engine.commands.context import CommandContext
from corral.engine.events.publisher import EventPublisher
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables.costs import budgets, usage

EVERY: Final = timedelta(minutes=1)
"""Longer, and more is spent before a limit is noticed; shorter sums the usage more often for nothing."""

MOST_AHEAD: Final = timedelta(minutes=10)
"""How far the time may be ahead of the provider's clock for a machine to be stopped. Less, and nothing is stopped at a
provider whose clock is late; more, and a clock that was set ahead adds the cost of as much time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSweep:
    """Reports on budgets, and stops machines."""

    cloud: Cloud
    database: Database
    event_publisher: EventPublisher
    change: ChangeInstance
    clock: Clock

    def job_type(self) -> JobType:
        """The sweep."""
        return JobType(name="sweep_budgets", handler=self.sweep, priority=Priority.LOW, every=EVERY)

    async def sweep(self, _run: JobRun) -> None:
        """Judge every budget, also after an error of another; raises the first of these errors at the end."""
        now = self.clock.now()
        async with self.database.connection() as connection:
            await usage.clip(connection, now)
            await budgets.drop_paid(connection, now)
            names = [budget.name for budget in await budgets.load_all(connection)]
        errors: list[Exception] = []
        for name in names:
            try:
                await self._judge(name)
            except Exception as error:  # noqa: BLE001  # of this budget, and of no other; raised below
                log.warning("budget.sweep_failed", budget=name, why=str(error))
                errors.append(error)
        if errors:
            raise errors[0]

    async def _judge(self, name: str) -> None:
        found = await self._report(name)
        if found is not None and found.is_exhausted and found.budget.on_limit is LimitAction.STOP:
            await self._stop_if_certain(found)

    async def _report(self, name: str) -> Standing | None:
        """Record what is to be reported of the budget; returns how it stands, or None if it is gone."""
        now = self.clock.now()
        async with self.database.transaction() as connection:
            locked = await budgets.lock_one(connection, name)
            if locked is None:
                return None
            budget, announced = locked
            count = await budgets.count(connection, budget, now)
            found = standing(budget, now, spent=count.spent, reserved=count.reserved)
            after, events = due(found, announced, now)
            if events:
                await budgets.note_announced(connection, name, after)
                await self.event_publisher.publish_of_fleet(connection, events)
        for event in events:
            log.warning("budget.reported", budget=name, event_type=event.type.value, why=event.reason)
        return found

    async def _stop_if_certain(self, found: Standing) -> None:
        async with self.database.connection() as connection:
            certain = await budgets.certain(connection, found.budget, self.clock.now())
            running = await budgets.running_in(connection, found.budget.scope)
        if certain < found.budget.limit_micro_usd:
            why = f"{usd_text(certain)} are spent for certain, and up to {usd_text(found.spent)} may be"
            log.info("budget.stop_waits", budget=found.budget.name, why=why)
        elif running and (ahead := await self._ahead()) > MOST_AHEAD:
            why = f"the time is {ahead} ahead of the provider's clock: less may be spent"
            log.warning("budget.stop_waits", budget=found.budget.name, why=why)
        else:
            await self._stop(found.budget, certain, running)

    async def _ahead(self) -> timedelta:
        """How far the time is ahead of the provider's clock; 0 if the provider does not show it."""
        time = await self.cloud.time()
        return timedelta(0) if time is None else self.clock.now() - time

    async def _stop(self, budget: Budget, spent: int, running: Sequence[InstanceId]) -> None:
        """Record a stop for each of *running*: every machine that the budget counts and that is not protected."""
        name, limit = subject_of(budget.name), usd_text(budget.limit_micro_usd)
        reason = f"budget {budget.name!r} is spent: {usd_text(spent)} of {limit}"

        def line(*, at: datetime, instance_id: str) -> AuditEntry:
            return budget_entry(name, OperationKind.STOP, reason, at, instance_id)

        context = CommandContext(line=line, caller=name, reason=reason)
        for instance_id in running:
            try:
                accepted = await self.change.record(OperationKind.STOP, instance_id, CommandOptions(), context)
            except (GoalRefusedError, NotFoundError) as error:
                log.debug("budget.stop_refused", instance_id=instance_id, budget=budget.name, why=error.message)
            else:
                if getattr(accepted, "is_new", False):
                    log.warning("budget.stopped", instance_id=instance_id, budget=budget.name, why=reason)
