"""
The share of the rate limit that measurements of machines may use, by all processes together.

Measurements are read for plots: without a share of their own a dashboard would take the calls that creates, deletes and
listings need. Each takes a permit of the limiter like any other read; this only counts them, in the same shared state.
"""

from __future__ import annotations

import math

import msgspec

from corral.cloud.rate_limit import state as rate_limit_state
from corral.cloud.rate_limit.rate_limiter import RateLimiter, RateLimitStore
from corral.cloud.rate_limit.state import WINDOW_SECONDS
from corral.domain.errors import ShareUsedUpError, StoreError

RETRY_SECONDS = 10.0


class SampleShare:
    """Counts the measurements of all processes; *fixed* is the limit a minute, None if it is learned."""

    def __init__(self, store: RateLimitStore, *, fixed: int | None, share: float) -> None:
        self._store = store
        self._limiter = RateLimiter(fixed)
        self._share = share

    async def take(self) -> None:
        """Count one; raises ShareUsedUpError when the share of the last minute is used up, or not known."""

        def change(raw: bytes | None, now: float) -> tuple[bytes, float]:
            state = self._limiter.at(rate_limit_state.decoded(raw, now), now)
            samples = state.samples or (0,)
            if sum(samples) >= self.allowed(self._limiter.limit(state)):
                first = next(place for place, count in enumerate(samples) if count)
                return rate_limit_state.encoded(state), max(1.0, WINDOW_SECONDS - len(samples) + 1.0 + first)
            samples = (*samples[:-1], samples[-1] + 1)
            return rate_limit_state.encoded(msgspec.structs.replace(state, samples=samples)), 0.0

        try:
            wait = await self._store.revise(change)
        except StoreError:
            wait = RETRY_SECONDS
        if wait:
            raise ShareUsedUpError(
                "the share of the rate limit for measurements (CORRAL_METRICS_SHARE) is used up; try again later",
                retry_after_seconds=wait,
            )

    def allowed(self, limit: int) -> int:
        """Measurements a minute, with a limit of *limit* calls a minute; at least one."""
        return max(1, math.floor(limit * self._share))
