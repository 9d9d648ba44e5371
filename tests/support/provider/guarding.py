"""The provider's client as the service puts it together, with a clock that races and a tally of what is under way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from pydantic import SecretStr

from corral.base.metrics import Metrics
from corral.cloud.breaker import Breaker
from corral.cloud.exchange import Answer, Call
from corral.cloud.guarded import GuardedExchange
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.cloud.rate_limit.throttle import Throttle
from support.clock.clocks import SteppedClock
from support.provider.rate_limit_store import MemoryRateLimitStore

KEY = "sk-very-secret-key"


class Counted:
    """An exchange that knows how many of its requests are under way."""

    def __init__(self, bare: HttpExchange) -> None:
        self._bare = bare
        self.under_way = 0
        self.sent = 0

    @property
    def provider_time(self) -> datetime | None:
        return self._bare.provider_time

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        self.under_way += 1
        self.sent += 1
        try:
            return await self._bare.ask(call, answer)
        finally:
            self.under_way -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """The parts a test looks at."""

    cloud: NovitaCloud
    guard: GuardedExchange
    counted: Counted
    metrics: Metrics

    def is_busy(self) -> bool:
        return self.counted.under_way > 0


@asynccontextmanager
async def guarding(
    address: str,
    clock: SteppedClock,
    *,
    fixed: int | None = 100_000,
    most_retries: int = 3,
    timeout_seconds: float = 10.0,
    key: str = KEY,
) -> AsyncGenerator[Guarding]:
    """The client of the provider at *address*, for the length of the block."""
    metrics = Metrics()
    async with HttpExchange(
        base_url=address, api_key=SecretStr(key), timeout_seconds=timeout_seconds, clock=clock
    ) as bare:
        counted = Counted(bare)
        throttle = Throttle(MemoryRateLimitStore(clock), fixed=fixed, clock=clock, metrics=metrics)
        guard = GuardedExchange(
            counted,
            throttle=throttle,
            breaker=Breaker(most_pause_seconds=60.0),
            most_retries=most_retries,
            clock=clock,
            jitter=lambda: 0.5,
            metrics=metrics,
        )
        yield Guarding(cloud=NovitaCloud(guard), guard=guard, counted=counted, metrics=metrics)
        await throttle.close()
