"""Builds the provider account: HTTP, the guard around it, and the client on top."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from pydantic import SecretStr

from corral.base.clock import Clock
from corral.base.metrics import Metrics
from corral.base.settings.settings import ProviderSettings
from corral.cloud.breaker import Breaker, default_threshold
from corral.cloud.guarded import GuardedExchange, Reachability
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.cloud.rate_limit.rate_limiter import RateLimitStore
from corral.cloud.rate_limit.sample_share import SampleShare
from corral.cloud.rate_limit.throttle import Throttle


class GuardedCloud(NovitaCloud):
    """A `Cloud` with rate limiter, circuit breaker and retries."""

    def __init__(self, guard: GuardedExchange) -> None:
        super().__init__(guard)
        self._guard = guard

    def snapshot(self) -> Reachability:
        """Whether the provider can be reached, for `/health`."""
        return self._guard.snapshot()


@asynccontextmanager
async def opened_account(
    settings: ProviderSettings,
    *,
    base_url: str,
    api_key: SecretStr,
    store: RateLimitStore,
    clock: Clock,
    metrics: Metrics,
    jitter: Callable[[], float],
) -> AsyncGenerator[GuardedCloud]:
    """
    The account for as long as this is open.

    Address and key are not taken from *settings* because the simulator may replace the provider; *jitter* gives
    numbers in [0, 1).
    """
    limit = settings.rate_limit_per_minute
    fixed = None if limit == "auto" else limit
    throttle = Throttle(store, fixed=fixed, clock=clock, metrics=metrics)
    threshold = settings.breaker_threshold or default_threshold(settings.max_retry_attempts)
    breaker = Breaker(most_pause_seconds=settings.breaker_recovery_ms / 1000, threshold=threshold)
    timeout_seconds = settings.request_timeout_ms / 1000
    async with HttpExchange(base_url=base_url, api_key=api_key, timeout_seconds=timeout_seconds, clock=clock) as bare:
        guard = GuardedExchange(
            bare,
            throttle=throttle,
            breaker=breaker,
            most_retries=settings.max_retry_attempts,
            clock=clock,
            jitter=jitter,
            metrics=metrics,
            samples=SampleShare(store, fixed=fixed, share=settings.metrics_share),
        )
        try:
            yield GuardedCloud(guard)
        finally:
            await throttle.close()
