"""The account as wiring opens it: every setting of the provider has its effect."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from pydantic import SecretStr
from support.clock.racing import RacingClock
from support.provider.rate_limit_store import MemoryRateLimitStore
from support.provider.upstream import Answering, answering, never, upstream

from corral.base.metrics import Metrics
from corral.base.settings.settings import ProviderSettings
from corral.cloud.breaker import BreakerState
from corral.cloud.novita.account import GuardedCloud, opened_account
from corral.cloud.port import Cloud
from corral.domain.errors import CloudTransientError


@asynccontextmanager
async def account(answer: Answering, clock: RacingClock, **settings: object) -> AsyncGenerator[GuardedCloud]:
    async with (
        upstream(answer) as address,
        opened_account(
            ProviderSettings.model_validate(settings),
            base_url=address,
            api_key=SecretStr("k"),
            store=MemoryRateLimitStore(clock),
            clock=clock,
            metrics=Metrics(),
            jitter=lambda: 0.5,
        ) as cloud,
    ):
        yield cloud


def empty() -> web.StreamResponse:
    return web.json_response({"data": []})


def failing() -> web.StreamResponse:
    return web.Response(status=500)


async def test_it_is_a_cloud_with_a_status_snapshot() -> None:
    """What the engine uses and what /health shows are one thing."""
    answer, _ = answering(empty)
    async with account(answer, RacingClock()) as opened:
        cloud: Cloud = opened
        found = await cloud.clusters()
        snapshot = opened.snapshot()

    assert list(found) == []
    assert (snapshot.breaker, snapshot.calls_per_minute, snapshot.is_reachable) == (BreakerState.CLOSED, 300, True)
    assert (snapshot.last_answer_at is None, snapshot.last_failure_at) == (False, None)


async def test_the_limit_is_the_setting_s() -> None:
    """NOVITA_RATE_LIMIT_PER_MINUTE=7 lets one read go, and changes have the rest."""
    answer, requests = answering(empty)
    async with account(answer, RacingClock(), NOVITA_RATE_LIMIT_PER_MINUTE=7) as cloud:
        for n in range(7):
            await cloud.delete(f"{n}")

        assert cloud.snapshot().calls_per_minute == 7
        assert len(requests) == 7


@pytest.mark.parametrize("retries", [1, 4])
async def test_reads_are_repeated_as_often_as_set(retries: int) -> None:
    """MAX_RETRY_ATTEMPTS counts repetitions, not attempts."""
    answer, requests = answering(failing)
    clock = RacingClock()
    async with account(answer, clock, MAX_RETRY_ATTEMPTS=retries) as cloud, clock.racing():
        with pytest.raises(CloudTransientError):
            await cloud.clusters()

    assert len(requests) == retries + 1


async def test_the_time_out_is_the_setting_s() -> None:
    """REQUEST_TIMEOUT=100 gives up after a tenth of a second."""
    clock = RacingClock()
    async with account(never, clock, REQUEST_TIMEOUT=100, MAX_RETRY_ATTEMPTS=1) as cloud, clock.racing():
        with pytest.raises(CloudTransientError) as caught:
            await cloud.clusters()

    assert caught.value.code == "NOVITA_API_TIMEOUT"


async def test_the_breaker_s_longest_pause_is_the_setting_s() -> None:
    """CIRCUIT_BREAKER_RECOVERY_MS=5000 never waits longer than 5 s."""
    answer, requests = answering(failing)
    clock = RacingClock()
    async with (
        account(
            answer, clock, CIRCUIT_BREAKER_RECOVERY_MS=5000, CIRCUIT_BREAKER_THRESHOLD=5, MAX_RETRY_ATTEMPTS=4
        ) as cloud,
        clock.racing(),
    ):
        for _ in range(4):
            with pytest.raises(CloudTransientError):
                await cloud.clusters()
            assert cloud.snapshot().breaker is BreakerState.OPEN
            await clock.sleep(5.0)

    assert len(requests) == 5 + 3
