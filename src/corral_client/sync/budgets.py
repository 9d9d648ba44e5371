"""Budgets, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Sequence

from corral_client.budgets import AsyncBudgets
from corral_client.models.budgets import Budget, OnLimit, Period
from corral_client.sync.looping import LoopThread


class Budgets:
    """`client.budgets`; see `AsyncBudgets`."""

    def __init__(self, inner: AsyncBudgets, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def set(
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

            >>> client.budgets.set("vision", scope="label:team=vision", period="day", limit_usd=200).on_limit
            'refuse'
            >>> client.budgets.remove("vision").name
            'vision'
        """
        inner = self._inner.set(
            name, limit_usd=limit_usd, period=period, scope=scope, on_limit=on_limit, thresholds=thresholds
        )
        return self._loop.run(inner)

    def list(self) -> list[Budget]:
        """Every budget, by name, with how much of it is spent and reserved."""
        return self._loop.run(self._inner.list())

    def get(self, name: str) -> Budget:
        """One budget, with how much of it is spent and reserved."""
        return self._loop.run(self._inner.get(name))

    def remove(self, name: str) -> Budget:
        """Delete a budget; returns it as it last stood."""
        return self._loop.run(self._inner.remove(name))
