"""What usage cost."""

from __future__ import annotations

from datetime import date, datetime

from corral_client.models.costs import CostSummary, DayReconciliation, Reconciliations
from corral_client.transport import Transport


class AsyncCosts:
    """`client.costs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(
        self,
        *,
        since: date | str | None = None,
        until: date | str | None = None,
        group_by: str | None = None,
        limit: int | None = None,
    ) -> CostSummary:
        """
        What usage cost from *since* (the beginning of the month) to *until* (now).

        A time without a zone is UTC. *group_by* is `instance`, `key`, `product`, `region`, `cause`, `day` or
        `label:NAME`; *limit* is the most groups.
        """
        query = {"from": _text(since), "to": _text(until), "groupBy": group_by, "limit": limit}
        return await self._transport.get(CostSummary, "/api/costs", query)

    async def reconciliations(self, day: date | str | None = None) -> list[DayReconciliation]:
        """
        The days that were compared with the provider's bill, the latest first; or one *day* with its machines.

        Raises NotFound if that day was not compared.
        """
        path = "/api/costs/reconciliations"
        return (await self._transport.get(Reconciliations, path, {"day": _text(day)})).reconciliations

    async def reconcile(self, day: date | str | None = None) -> DayReconciliation:
        """Compare *day* (yesterday, in UTC) with the provider's bill now; needs the role admin."""
        body = {} if day is None else {"day": _text(day)}
        path = "/api/costs/reconciliations"
        return await self._transport.act("POST", DayReconciliation, path, body=body, key=None)


def _text(at: date | str | None) -> str | None:
    return at.isoformat() if isinstance(at, (date, datetime)) else at
