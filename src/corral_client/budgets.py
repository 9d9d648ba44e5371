"""Budgets: limits on cost that creates and starts keep."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from corral_client.models.budgets import Budget, BudgetList, OnLimit, Period
from corral_client.transport import Transport


class AsyncBudgets:
    """`client.budgets`; setting and removing them is for callers of the role admin."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def set(
        self,
        name: str,
        *,
        limit_usd: float,
        period: Period,
        scope: str = "all",
        on_limit: OnLimit = "refuse",
        thresholds: Sequence[float] | None = None,
    ) -> Budget:
        """
        Create or replace a budget; *scope* is `all`, `label:KEY=VALUE` or `key:NAME`.

            >>> (await client.budgets.set("vision", scope="label:team=vision", period="day", limit_usd=200)).on_limit
            'refuse'
            >>> (await client.budgets.remove("vision")).name
            'vision'
        """
        body: dict[str, object] = {"scope": scope, "period": period, "limitUsd": limit_usd, "onLimit": on_limit}
        if thresholds is not None:
            body["thresholds"] = list(thresholds)
        return await self._transport.act("PUT", Budget, _path(name), body=body, key=None)

    async def list(self) -> list[Budget]:
        """Every budget, by name, with how much of it is spent and reserved."""
        return (await self._transport.get(BudgetList, "/api/budgets")).budgets

    async def get(self, name: str) -> Budget:
        """One budget, with how much of it is spent and reserved."""
        return await self._transport.get(Budget, _path(name))

    async def remove(self, name: str) -> Budget:
        """Delete a budget; returns it as it last stood."""
        return await self._transport.act("DELETE", Budget, _path(name), key=None)


def _path(name: str) -> str:
    return f"/api/budgets/{quote(name, safe='')}"
