"""
Reports when the account at the provider lasts for less than CORRAL_LOW_BALANCE_HOURS at the present cost.

Once, until it lasts for twice as long again. Nothing is read from the provider while nothing costs money.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.budgets.low_balance import lasts_again, low_balance
from corral.domain.errors import CloudError
from corral.engine.events.publisher import EventPublisher
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.installation import low_balance as reports
from corral.store.session.database import Database
from corral.store.tables.costs import budgets

EVERY: Final = timedelta(minutes=10)
"""Longer, and an empty account is noticed late; shorter uses up more of the rate limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSweep:
    """Watches the balance; *hours* is how long it must last, 0: it is not read."""

    cloud: Cloud
    database: Database
    event_publisher: EventPublisher
    clock: Clock
    hours: float

    def job_type(self) -> JobType:
        """The sweep."""
        return JobType(name="sweep_balance", handler=self.sweep, priority=Priority.LOW, every=EVERY)

    async def sweep(self, _run: JobRun) -> None:
        """Compare the balance with the present cost."""
        if not self.hours:
            return
        async with self.database.connection() as connection:
            hourly = await budgets.hourly(connection)
        if not hourly:
            return
        try:
            balance = await self.cloud.balance()
        except CloudError as error:
            log.info("account.balance_unknown", why=error.message)
            return
        now, left = self.clock.now(), balance.available_micro_usd
        event = low_balance(left, hourly, self.hours, now)
        async with self.database.transaction() as connection:
            is_reported = await reports.lock(connection)
            if event is not None and not is_reported:
                await reports.note(connection, now)
                await self.event_publisher.publish_of_fleet(connection, [event])
                log.warning("account.low_balance", why=event.reason)
            elif is_reported and lasts_again(left, hourly, self.hours):
                await reports.note(connection, None)
