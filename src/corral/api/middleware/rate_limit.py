"""The limit on requests, as the edge applies it: who is counted, and the headers that tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from corral.api.http.context import Identity
from corral.base.clock import Clock
from corral.domain.errors import RateLimitError
from corral.domain.rate_limit import RateLimit, RateLimitState

UNCOUNTED: Final = "/health"
"""Orchestrators ask often and must always be answered."""


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

    def headers(self, standing: RateLimitState) -> list[tuple[bytes, bytes]]:
        """What the caller is told of its standing; the reset is an instant, in seconds since 1970."""
        resets_at = self.clock.now().timestamp() + standing.resets_in_seconds
        return [
            (b"x-ratelimit-limit", str(standing.limit).encode()),
            (b"x-ratelimit-remaining", str(standing.remaining).encode()),
            (b"x-ratelimit-reset", str(math.ceil(resets_at)).encode()),
        ]


def exceeded(standing: RateLimitState) -> RateLimitError:
    """The refusal of a request too many."""
    return RateLimitError(
        f"more than {standing.limit} requests in this window; ask again when it ends",
        retry_after_seconds=standing.resets_in_seconds,
    )
