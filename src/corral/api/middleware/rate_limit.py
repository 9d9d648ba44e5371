"""The limit on requests of one caller, and its response headers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from corral.api.http.context import Identity
from corral.base.clock import Clock
from corral.domain.errors import RateLimitError
from corral.domain.rate_limit import RateLimit, RateLimitState

UNCOUNTED: Final = "/health"
"""Orchestrators probe often and must always get a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimit:
    """This process's count of requests per caller; `engine/auth/request_counts.py` adds the other processes'."""

    limit: RateLimit
    clock: Clock

    def take(self, identity: Identity, method: str, path: str) -> RateLimitState | None:
        """Count a request; None for those that are not counted."""
        if path.startswith(UNCOUNTED) or method == "OPTIONS":
            return None
        return self.limit.take(identity.counted_as, self.clock.monotonic())

    def headers(self, state: RateLimitState) -> list[tuple[bytes, bytes]]:
        """The limit headers of a response; the reset is an instant, in seconds since 1970."""
        resets_at = self.clock.now().timestamp() + state.resets_in_seconds
        return [
            (b"x-ratelimit-limit", str(state.limit).encode()),
            (b"x-ratelimit-remaining", str(state.remaining).encode()),
            (b"x-ratelimit-reset", str(math.ceil(resets_at)).encode()),
        ]


def exceeded(state: RateLimitState) -> RateLimitError:
    """The error for a request over the limit."""
    return RateLimitError(
        f"more than {state.limit} requests in this window; retry when it ends",
        retry_after_seconds=state.resets_in_seconds,
    )
