"""The balance of the provider account, cached for a minute."""

from __future__ import annotations

import asyncio
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.cloud.port import Cloud
from corral.domain.costs.bill import Balance, BalanceReading
from corral.domain.errors import CloudError

BALANCE_SECONDS: Final = 60.0
"""How long a balance, or the reason why there is none, is used again. Longer, and a top-up shows late; shorter, and
open dashboards use up the rate limit, most of all while the provider fails."""
WAIT_SECONDS: Final = 5.0
"""How long a response waits for the provider. Longer, and a page hangs while the provider does, because calls are
repeated for minutes; shorter, and a slow provider has no balance at the first request. The next one has it."""


class AccountQueries:
    """Reads the account."""

    def __init__(self, cloud: Cloud, clock: Clock, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._cloud = cloud
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._readings: Cache[BalanceReading] = Cache(ttl_seconds=BALANCE_SECONDS, most_entries=1, clock=clock)

    async def balance(self) -> BalanceReading:
        """The balance as the provider said within the last minute; never raises because of the provider."""
        try:
            async with asyncio.timeout(self._wait_seconds):  # the call goes on, for the next request
                return await self._readings.get("now", self._read)
        except TimeoutError:
            return self._reading(problem="the provider has not answered yet")

    async def _read(self) -> BalanceReading:
        try:
            return self._reading(await self._cloud.balance())
        except CloudError as error:
            return self._reading(problem=error.message)

    def _reading(self, balance: Balance | None = None, *, problem: str | None = None) -> BalanceReading:
        return BalanceReading(balance=balance, problem=problem, read_at=self._clock.now())
