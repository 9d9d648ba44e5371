"""The budgets: set, read with how they stand, and removed; every change with its audit line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from corral.base.clock import Clock
from corral.domain.audit import AuditEntry
from corral.domain.budgets.budget import Budget, Standing, standing
from corral.domain.errors import NotFoundError
from corral.domain.placement.pricing import usd_text
from corral.domain.requests.costs.budget import is_budget_name
from corral.store.session.database import Connection, Database
from corral.store.tables.callers import audit
from corral.store.tables.costs import budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetBook:
    """Sets, reads and removes budgets."""

    database: Database
    clock: Clock

    async def put(self, budget: Budget, line: AuditEntry) -> tuple[Standing, bool]:
        """Store *budget* under its name, with its audit line; returns how it stands, and whether it is new."""
        now = self.clock.now()
        async with self.database.transaction() as connection:
            is_new = await budgets.put(connection, budget, now)
            about = f"{budget.scope} {budget.period} {usd_text(budget.limit_micro_usd)} {budget.on_limit}"
            await audit.append([replace(line, path=f"{line.path} {about}")]).run(connection)
        async with self.database.connection() as connection:
            return await self._standing(connection, budget), is_new

    async def remove(self, name: str, line: AuditEntry) -> Standing:
        """Delete the budget, with its audit line; returns how it stood, or raises NotFoundError."""
        _check(name)
        async with self.database.transaction() as connection:
            locked = await budgets.lock_one(connection, name)
            if locked is None:
                raise _no_budget(name)
            found = await self._standing(connection, locked[0])
            await budgets.remove(connection, name)
            await audit.append([line]).run(connection)
        return found

    async def get(self, name: str) -> Standing:
        """How one budget stands; raises NotFoundError."""
        _check(name)
        async with self.database.connection() as connection:
            budget = await budgets.load(connection, name)
            if budget is None:
                raise _no_budget(name)
            return await self._standing(connection, budget)

    async def all(self) -> list[Standing]:
        """How every budget stands, by name."""
        async with self.database.connection() as connection:
            return [await self._standing(connection, each) for each in await budgets.load_all(connection)]

    async def _standing(self, connection: Connection, budget: Budget) -> Standing:
        now = self.clock.now()
        found = await budgets.count(connection, budget, now)
        return standing(budget, now, spent=found.spent, reserved=found.reserved)


def _check(name: str) -> None:
    if not is_budget_name(name):
        raise _no_budget(name)


def _no_budget(name: str) -> NotFoundError:
    return NotFoundError(f"there is no budget called {name[:80]!r}", code="BUDGET_NOT_FOUND")
