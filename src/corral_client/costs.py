"""What usage cost."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from datetime import date, datetime

from corral_client.log_lines import lines_of
from corral_client.models.costs import CostSummary, DayReconciliation, ExportFormat, Forecast, Reconciliations
from corral_client.transport import Query, Transport


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
        per_day: bool = False,
    ) -> CostSummary:
        """
        What usage cost from *since* (the beginning of the month) to *until* (now).

        A time without a zone is UTC. *group_by* is `instance`, `key`, `product`, `region`, `cause`, `day` or
        `label:NAME`; *limit* is the most groups. With *per_day* each group also has its days.
        """
        query = {
            "from": _text(since),
            "to": _text(until),
            "groupBy": group_by,
            "limit": limit,
            "perDay": per_day or None,
        }
        return await self._transport.get(CostSummary, "/api/costs", query)

    async def forecast(self) -> Forecast:
        """What is billed now and why, and what the month costs if all of it stays."""
        return await self._transport.get(Forecast, "/api/costs/forecast")

    async def export(
        self,
        *,
        format: ExportFormat = "csv",  # noqa: A002  # the word of the API
        since: date | str | None = None,
        until: date | str | None = None,
    ) -> AsyncGenerator[str]:
        """
        Each line of a CSV file, without line ends: the names of the columns, then one for each span of usage and day.

        The format `focus` has the columns of FOCUS 1.2.
        """
        query: Query = {"from": _text(since), "to": _text(until), "format": format}
        opening = self._transport.stream("/api/costs/export", query, {"Accept": "text/csv"})
        async with opening as pieces, contextlib.aclosing(lines_of(pieces)) as lines:
            async for line in lines:
                yield line

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
