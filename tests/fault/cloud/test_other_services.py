"""What the provider's other services refuse or leave unanswered has no effect on the calls that machines need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from support.clock.racing import RacingClock
from support.clock.waiting import until
from support.provider.guarding import Guarding, guarding
from support.provider.upstream import Answering, answering, never, refusing, upstream

from corral.cloud.breaker import FIRST_PAUSE_SECONDS, MOST_TRIALS, BreakerState
from corral.cloud.novita.client import METRICS_PATH
from corral.cloud.rate_limit.state import FIRST_LIMIT
from corral.domain.errors import CircuitOpenError, CloudTransientError
from corral.domain.machine.utilization import Period

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MEASURED = Period(begin=BEGIN, end=BEGIN + HOUR, interval=HOUR)


def good() -> web.StreamResponse:
    return web.json_response({"data": []})


@asynccontextmanager
async def two_services(metrics: Answering) -> AsyncGenerator[tuple[Guarding, RacingClock]]:
    """A provider whose measurements are answered by *metrics*, and all else well."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await metrics(request) if request.path == METRICS_PATH else good()

    clock = RacingClock()
    async with (
        upstream(answer) as address,
        guarding(address, clock, fixed=None) as parts,
        clock.racing(is_busy=parts.is_busy),
    ):
        yield parts, clock


async def test_a_refused_measurement_slows_down_only_measurements() -> None:
    """Another service refused it: neither the limit of the account nor its pause follows from that."""
    answer, requests = answering(refusing(429, Retry_After="40"), lambda: web.json_response({}))
    async with two_services(answer) as (parts, clock):
        with pytest.raises(CloudTransientError):
            await parts.cloud.utilization("p1", MEASURED)
        with pytest.raises(CircuitOpenError) as caught:
            await parts.cloud.utilization("p1", MEASURED)
        assert len(requests) == 1
        assert caught.value.retry_after_seconds == pytest.approx(40.0, abs=0.1)

        await parts.cloud.clusters()
        assert clock.monotonic() == pytest.approx(0.0, abs=0.1), "other calls go on"
        assert parts.guard.snapshot().calls_per_minute == FIRST_LIMIT

        await clock.sleep(40.0)
        assert await parts.cloud.utilization("p1", MEASURED) is not None


async def test_measurements_that_are_refused_again_and_again_are_read_less_and_less() -> None:
    """Without Retry-After: 5 s after the first, doubling up to a minute."""
    answer, requests = answering(refusing(429))
    async with two_services(answer) as (parts, clock):
        for _ in range(300):
            with pytest.raises(CloudTransientError):
                await parts.cloud.utilization("p1", MEASURED)
            await clock.sleep(1.0)

    assert len(requests) == 5 + 3, "after 5, 10, 20 and 40 s, and then every minute"


async def test_measurements_that_hang_do_not_take_the_trials_of_a_half_open_breaker() -> None:
    """A few of them would keep creates and deletes from being sent although the provider is back."""
    trouble = [refusing(500)] * 5

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == METRICS_PATH:
            return await never(request)
        return trouble.pop()() if trouble else good()

    clock = RacingClock()
    async with upstream(answer) as address, guarding(address, clock, most_retries=0) as parts:
        for _ in range(5):
            with pytest.raises(CloudTransientError):
                await parts.cloud.clusters()
        clock.advance(FIRST_PAUSE_SECONDS)
        hanging = [asyncio.create_task(parts.cloud.utilization("p1", MEASURED)) for _ in range(MOST_TRIALS)]
        await until(lambda: parts.counted.under_way == MOST_TRIALS)
        await parts.cloud.clusters()
        for each in hanging:
            each.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    assert parts.guard.snapshot().breaker is BreakerState.CLOSED


async def test_measurements_that_fail_do_not_make_the_provider_unreachable() -> None:
    """They come from another service; creates and deletes must not wait for it, nor a person for repeated calls."""
    answer, requests = answering(refusing(500))
    async with two_services(answer) as (parts, _):
        for _attempt in range(6):
            with pytest.raises(CloudTransientError):
                await parts.cloud.utilization("p1", MEASURED)
        reachable = parts.guard.snapshot()

    assert len(requests) == 6
    assert reachable.breaker is BreakerState.CLOSED
    assert (reachable.is_reachable, reachable.last_failure) == (True, None)
