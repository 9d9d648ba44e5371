"""
Reserves money for creates and starts, in the transaction that records them.

Usually one call asks whether the amount fits into what is known to be left (`corral_reserve`). If not, or if that is
not known, the budgets are counted: their rows are locked in the order of their names, what is spent and reserved is
summed, and the requests are admitted one after the other. So a request is refused only after a count, and no number
of parallel requests, in any number of processes, is admitted beyond a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.domain.budgets.admission import BudgetRefusal, WantedReservation, admit
from corral.domain.budgets.budget import Standing, scopes_of, standing
from corral.domain.budgets.holding import reservation_for
from corral.domain.budgets.reservation import Reservation
from corral.domain.instance import CreateRequest, Instance, InstanceId, Placement
from corral.store.session.database import Connection, Database
from corral.store.tables import instances
from corral.store.tables.costs import budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReservations:
    """Asks budgets; *hours* is for how long money is set aside."""

    database: Database
    hours: float

    def amount(self, request: CreateRequest, placement: Placement | None, now: datetime) -> Reservation:
        """What is set aside for an instance at *placement*."""
        return reservation_for(request, placement, self.hours, now)

    async def reserve(
        self, connection: Connection, wanted: WantedReservation, now: datetime, *, of: InstanceId | None = None
    ) -> BudgetRefusal | None:
        """
        Reserve in the caller's transaction, which writes the reservation; returns why it is refused, or None.

        The instance *of* has a reservation that the new one replaces: it does not count.
        """
        amounts = sums_by_scope([wanted])
        if await budgets.reserve(connection, list(amounts), list(amounts.values()), now):
            return None
        (outcome,) = await self.count(connection, [wanted], now, but=of)
        return outcome

    async def count(
        self,
        connection: Connection,
        wanted: Sequence[WantedReservation],
        now: datetime,
        *,
        but: InstanceId | None = None,
    ) -> list[BudgetRefusal | None]:
        """Lock and count the budgets of *wanted*, in the caller's transaction; returns why each is refused, or None."""
        found = await budgets.lock(connection, sums_by_scope(wanted))
        counts = [await budgets.count(connection, budget, now, but=but) for budget in found]
        standings = [
            standing(budget, now, spent=each.spent, reserved=each.reserved)
            for budget, each in zip(found, counts, strict=True)
        ]
        outcomes = admit(wanted, standings)
        added = sums_by_scope([each for each, why in zip(wanted, outcomes, strict=True) if why is None])
        until = now + budgets.COUNT_LASTS
        for budget, each in zip(found, counts, strict=True):
            # What runs costs more until then, and is counted as if it had.
            ahead = each.hourly * (budgets.COUNT_LASTS.total_seconds() / 3600)
            used = each.spent + each.reserved + added[budget.scope] + int(ahead) + 1
            await budgets.note_count(connection, budget.name, used, until)
        return outcomes

    async def standings(self, wanted: WantedReservation, now: datetime) -> list[Standing]:
        """The budgets that a request would have to fit into, by name, as they stand."""
        async with self.database.connection() as connection:
            found = [each for each in await budgets.load_all(connection) if each.scope in wanted.scopes]
            counts = [await budgets.count(connection, budget, now) for budget in found]
        return [
            standing(budget, now, spent=each.spent, reserved=each.reserved)
            for budget, each in zip(found, counts, strict=True)
        ]

    async def raise_to(self, instance: Instance, wanted: Reservation, now: datetime) -> BudgetRefusal | None:
        """
        Raise the reservation of *instance*, whose machine costs more than was expected; returns why not, or None.

        Raises StaleError if the instance changed since it was read.
        """
        async with self.database.transaction() as connection:
            known = await instances.load_for_update(connection, instance.id)
            if known is None or known.generation != instance.generation:
                raise instances.stale(instance)
            why = await self.reserve(connection, wanted_by(instance, wanted), now, of=instance.id)
            if why is None:
                await budgets.raise_reservation(connection, instance.id, wanted.micro_usd)
        return why


def wanted_by(instance: Instance, reservation: Reservation) -> WantedReservation:
    """What *instance* asks of its budgets."""
    scopes = scopes_of(instance.created_by, instance.labels)
    return WantedReservation(micro_usd=reservation.micro_usd, scopes=scopes)


def sums_by_scope(wanted: Sequence[WantedReservation]) -> Counter[str]:
    """What is wanted of each scope in all."""
    sums = Counter[str]()
    for each in wanted:
        for scope in each.scopes:
            sums[scope] = min(sums[scope] + each.micro_usd, budgets.MOST)
    return sums
