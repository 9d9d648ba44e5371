"""What usage cost, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Generator
from datetime import date

from corral_client.costs import AsyncCosts
from corral_client.models.costs import CostSummary, DayReconciliation, ExportFormat, Forecast
from corral_client.sync.looping import LoopThread


class Costs:
    """`client.costs`; see `AsyncCosts`."""

    def __init__(self, inner: AsyncCosts, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def get(
        self,
        *,
        since: date | str | None = None,
        until: date | str | None = None,
        group_by: str | None = None,
        limit: int | None = None,
        per_day: bool = False,
    ) -> CostSummary:
        """
        What usage cost from *since* (the beginning of the month) to *until* (now), by groups.

            >>> costs = client.costs.get(group_by="cause")
            >>> costs.total.low <= costs.total.usd <= costs.total.high
            True
        """
        return self._loop.run(
            self._inner.get(since=since, until=until, group_by=group_by, limit=limit, per_day=per_day)
        )

    def forecast(self) -> Forecast:
        """
        What is billed now, for which cause, and what the month costs if that stays.

            >>> forecast = client.costs.forecast()
            >>> forecast.month.expected.usd >= forecast.month.so_far.usd
            True
        """
        return self._loop.run(self._inner.forecast())

    def export(
        self,
        *,
        format: ExportFormat = "csv",  # noqa: A002  # the word of the API
        since: date | str | None = None,
        until: date | str | None = None,
    ) -> Generator[str]:
        """
        Each line of a CSV file, without line ends: the names of the columns, then one for each span of usage and day.

            >>> next(client.costs.export(format="focus")).startswith("BilledCost,BillingAccountId,")
            True
        """
        return self._loop.iterate(self._inner.export(format=format, since=since, until=until))

    def reconciliations(self, day: date | str | None = None) -> list[DayReconciliation]:
        """
        The days that were compared with the provider's bill, the latest first; or one *day* with its machines.

            >>> [each.difference for each in client.costs.reconciliations()]
            []
        """
        return self._loop.run(self._inner.reconciliations(day))

    def reconcile(self, day: date | str | None = None) -> DayReconciliation:
        """
        Compare *day* (yesterday, in UTC) with the provider's bill now; needs the role admin.

            >>> client.costs.reconcile().state
            'reconciled'
        """
        return self._loop.run(self._inner.reconcile(day))
