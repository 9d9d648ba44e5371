"""The share of the rate limit for measurements."""

from __future__ import annotations

import pytest
from support.clock.clocks import SteppedClock
from support.provider.rate_limit_store import MemoryRateLimitStore

from corral.cloud.rate_limit.rate_limiter import RateLimiter
from corral.cloud.rate_limit.sample_share import SampleShare
from corral.cloud.rate_limit.state import decoded
from corral.domain.errors import CloudTransientError


async def taken(share: SampleShare, most: int = 1000) -> tuple[int, float]:
    """How many are granted at once, and the seconds after which to retry."""
    for count in range(most):
        try:
            await share.take()
        except CloudTransientError as error:
            return count, error.retry_after_seconds or 0.0
    raise AssertionError(f"{most} were granted")


@pytest.mark.parametrize(("limit", "share", "allowed"), [(100, 0.2, 20), (30, 0.2, 6), (3, 0.2, 1), (1000, 0.5, 500)])
async def test_all_processes_together_take_their_share_of_a_minute(limit: int, share: float, allowed: int) -> None:
    """At least one; the wait that is named is enough."""
    clock = SteppedClock()
    store = MemoryRateLimitStore(clock)
    one, other = (SampleShare(store, fixed=limit, share=share) for _ in range(2))
    await one.take()
    count, wait = await taken(other)

    assert count == allowed - 1
    assert (await taken(one))[0] == 0
    assert 60 <= wait <= 62
    clock.advance(wait)
    assert (await taken(one))[0] == allowed


async def test_a_share_in_steps_frees_its_places_one_by_one() -> None:
    """As each becomes a minute old."""
    clock = SteppedClock()
    share = SampleShare(MemoryRateLimitStore(clock), fixed=10, share=0.2)
    await share.take()
    clock.advance(20)
    await share.take()
    _, wait = await taken(share)

    assert 40 <= wait <= 42
    clock.advance(wait)
    assert (await taken(share))[0] == 1


async def test_the_count_of_other_calls_is_unchanged() -> None:
    """A permit of the limiter counts them there."""
    clock = SteppedClock()
    store = MemoryRateLimitStore(clock)
    await SampleShare(store, fixed=10, share=0.5).take()

    def look(raw: bytes | None, now: float) -> tuple[bytes, tuple[int, int]]:
        state = RateLimiter(10).at(decoded(raw, now), now)
        return raw or b"{}", (sum(state.counts), sum(state.samples))

    assert await store.revise(look) == (0, 1)
