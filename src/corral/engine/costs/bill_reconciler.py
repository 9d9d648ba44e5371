"""
Compares each day's usage with the provider's bill, once the bill should be complete.

The job looks every ten minutes for days that are due, so a day that could not be reconciled at its time, because the
service was down or the bill unreachable, is reconciled later. A day has one row, which a repeated attempt replaces.
Nothing else depends on it: costs and budgets count usage whether or not there is a bill.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.audit import AuditEntry
from corral.domain.costs.bill import BillCategory, BillCycle, BillRow, BillRows
from corral.domain.costs.reconciled_days import MOST_DAYS, ReconciledDay, due_days, period, retry_at, yesterday
from corral.domain.costs.reconciliation import BillOutcome, MachineResult, Reconciliation, reconcile
from corral.domain.errors import CloudError, CloudTransientError
from corral.domain.instance import ProviderId
from corral.domain.observation.provider_names import parse_provider_name
from corral.domain.records import replace
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Connection, Database
from corral.store.sql.combined_statement import Write
from corral.store.tables import instances
from corral.store.tables.callers import audit
from corral.store.tables.costs import reconciliations

EVERY: Final = timedelta(minutes=10)
"""Between looks for days that are due. Longer, and a day is reconciled later; shorter only adds statements."""
MOST_HOURLY_MACHINES: Final = 2000
"""With more machines the rows of a day are read by the day: by the hour they would be more than 30 MB."""
TRIES: Final = 3
PAUSE_SECONDS: Final = 5.0
MOST_PAUSE_SECONDS: Final = 20.0
"""
Where the billing service asks for a longer pause between two calls, the day is tried again later.

Longer, and a person who asked for a day waits; shorter, and the second call of a day is often refused.
"""
MOST_LOOKUPS: Final = 20
"""Unknown machines whose names are looked up for one day; each costs a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillReconciler:
    """Reconciles days."""

    cloud: Cloud
    database: Database
    clock: Clock
    installation: str
    is_daily: bool
    """Whether days are reconciled by themselves."""

    def job_type(self) -> JobType:
        """The job that reconciles the days that are due."""
        return JobType(name="reconcile_bills", handler=self.reconcile_due, priority=Priority.LOW, every=EVERY)

    async def reconcile_due(self, _run: JobRun) -> None:
        """Reconcile the days that are due; ends at the first whose bill cannot be read."""
        if not self.is_daily:
            return
        now = self.clock.now()
        async with self.database.connection() as connection:
            first = await reconciliations.first_day(connection)
            attempted = await reconciliations.retries(connection, yesterday(now) - timedelta(days=MOST_DAYS))
        for day in [] if first is None else due_days(now, first=first, retries=attempted):
            try:
                await self.reconcile_day(day)
            except CloudError as error:
                log.warning("costs.bill_unreachable", day=str(day), why=error.message)
                return

    async def reconcile_day(self, day: date, line: AuditEntry | None = None) -> ReconciledDay:
        """
        Reconcile *day*, store its result with the audit *line*, and return it.

        Raises CloudError if the bill cannot be read, which is stored, too.
        """
        since, until = period(day)
        async with self.database.connection() as connection:
            usage = await reconciliations.day_usage(connection, since=since, until=until, now=self.clock.now())
        machines = len({each.provider_id for each in usage})
        try:
            bill = await self._bill(since, until, BillCycle.HOUR if machines <= MOST_HOURLY_MACHINES else BillCycle.DAY)
        except CloudError as error:
            async with self.database.connection() as connection:
                await self._write(day, None, error.message).run(connection)
            raise
        compared = await asyncio.to_thread(reconcile, day, usage, bill.rows, unreadable=bill.unreadable)
        result = await self._explained(compared)
        async with self.database.transaction() as connection:
            stored = await self._store(connection, day, result)
            if line is not None:
                await audit.append([line]).run(connection)
        _log(result)
        return stored

    async def days(self, limit: int) -> list[ReconciledDay]:
        """The last days that were attempted, the latest first."""
        async with self.database.connection() as connection:
            return await reconciliations.latest(connection, limit)

    async def day(self, day: date) -> ReconciledDay | None:
        """One day; None if it was not attempted."""
        async with self.database.connection() as connection:
            return await reconciliations.load(connection, day)

    async def _store(self, connection: Connection, day: date, result: Reconciliation) -> ReconciledDay:
        (row,) = await self._write(day, result, None).run(connection)
        return reconciliations.read(row)

    def _write(self, day: date, result: Reconciliation | None, reason: str | None) -> Write:
        now = self.clock.now()
        again = retry_at(day, result, now) if self.is_daily else None
        return reconciliations.record(day, result, at=now, retry_at=again, reason=reason)

    async def _bill(self, since: datetime, until: datetime, cycle: BillCycle) -> BillRows:
        rows, unreadable = list[BillRow](), 0
        for category in BillCategory:
            found = await self._rows(category, since, until, cycle)
            others = set(BillCategory) - {category}  # a provider that ignores the category shows their rows, too
            rows += [row for row in found.rows if row.category not in others]
            unreadable += found.unreadable
        return BillRows(rows=tuple(rows), unreadable=unreadable)

    async def _rows(self, category: BillCategory, since: datetime, until: datetime, cycle: BillCycle) -> BillRows:
        """The rows of one category; waits where the billing service was called too fast."""
        tries = 1
        while True:
            try:
                return await self.cloud.bill_rows(category, since=since, until=until, cycle=cycle)
            except CloudTransientError as error:
                pause = max(error.retry_after_seconds or 0.0, PAUSE_SECONDS)
                if tries == TRIES or pause > MOST_PAUSE_SECONDS:
                    raise
            await self.clock.sleep(pause)
            tries += 1

    async def _explained(self, result: Reconciliation) -> Reconciliation:
        """*result* with the records and the names of unknown machines; one with our name and no record is an orphan."""
        unknown = [each for each in result.machines if each.outcome is BillOutcome.UNKNOWN_MACHINE]
        if not unknown:
            return result
        async with self.database.connection() as connection:
            records = await instances.by_ids(connection, [], [each.provider_id for each in unknown])
        owners = {record.provider_id: record for record in records.values()}
        known = {
            each.provider_id: replace(each, instance_id=owner.id, because=f"{each.because}; it belongs to {owner.id}")
            for each in unknown
            if (owner := owners.get(ProviderId(each.provider_id))) is not None
        }
        strangers = [each for each in unknown if each.provider_id not in known]
        known |= await self._named(strangers[:MOST_LOOKUPS])
        return replace(result, machines=tuple(known.get(each.provider_id, each) for each in result.machines))

    async def _named(self, machines: Sequence[MachineResult]) -> dict[str, MachineResult]:
        """Those of *machines* that still exist, with their names at the provider."""
        found: dict[str, MachineResult] = {}
        try:
            for each in machines:
                seen = await self.cloud.instance(each.provider_id)
                if seen is None:
                    continue
                origin = parse_provider_name(seen.name)
                is_orphan = origin is not None and origin.installation == self.installation
                because = f"{each.because}; it is called {seen.name}" + (", which makes it an orphan" * is_orphan)
                found[each.provider_id] = replace(each, name=seen.name, is_orphan=is_orphan, because=because)
                if is_orphan:
                    log.warning("orphan.billed", provider_id=each.provider_id, name=seen.name, micro_usd=each.billed)
        except CloudError as error:
            log.warning("costs.lookup_failed", why=error.message)
        return found


def _log(result: Reconciliation) -> None:
    facts = {
        "day": str(result.day),
        "usage_micro_usd": result.usage.usd,
        "billed_micro_usd": result.billed,
        "unreadable_rows": result.unreadable,
        **{outcome.value: count for outcome, count in result.counts.items()},
    }
    if result.differing:
        log.warning("costs.day_differs", **facts)
    else:
        log.info("costs.day_reconciled", **facts)
