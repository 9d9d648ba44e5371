"""What is asked again, when, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from support.clock.clocks import SteppedClock
from support.clock.racing import RacingClock
from support.clock.waiting import until
from support.provider.guarding import Guarding, guarding
from support.provider.upstream import Respond, answering, never, refusing, upstream

from corral.cloud.breaker import FAILURES_TO_OPEN, MOST_TRIALS, BreakerState
from corral.domain.errors import (
    CircuitOpenError,
    CloudRefusedError,
    CloudTransientError,
    CloudUnknownError,
)


def good() -> web.StreamResponse:
    return web.json_response({"data": [{"id": "us-ca-6", "name": "US-CA-06 (California)"}]})


@asynccontextmanager
async def provider(
    *responses: Respond, most_retries: int = 3, fixed: int = 100_000
) -> AsyncGenerator[tuple[Guarding, RacingClock]]:
    answer, _ = answering(*responses)
    clock = RacingClock()
    async with (
        upstream(answer) as address,
        guarding(address, clock, most_retries=most_retries, fixed=fixed) as parts,
        clock.racing(is_busy=parts.is_busy),
    ):
        yield parts, clock


async def test_a_read_is_repeated_until_it_succeeds() -> None:
    """After 1 s, then 2 s, by the injected clock and dice."""
    async with provider(refusing(500), refusing(502), good) as (parts, clock):
        clusters = await parts.cloud.clusters()
        elapsed = clock.monotonic()

    assert [cluster.id for cluster in clusters] == ["us-ca-6"]
    assert parts.counted.sent == 3
    assert elapsed == pytest.approx(3.0, abs=0.01)


async def test_a_read_is_repeated_only_so_often() -> None:
    """Then its caller learns that the provider is in trouble."""
    async with provider(refusing(500)) as (parts, _):
        with pytest.raises(CloudTransientError) as caught:
            await parts.cloud.clusters()

    assert (parts.counted.sent, caught.value.code) == (4, "NOVITA_API_ERROR")


async def test_a_throttled_delete_is_repeated_every_two_seconds() -> None:
    """The machine is billed meanwhile: throttling that ended is noticed soon."""
    async with provider(*[refusing(429)] * 5, good, most_retries=5) as (parts, clock):
        await parts.cloud.delete("p1")

        assert clock.monotonic() == pytest.approx(1.0 + 4 * 2.0, abs=0.01)


async def test_retry_after_is_obeyed() -> None:
    """Not earlier than the provider asked for, by this call or any other."""
    async with provider(refusing(429, Retry_After="17"), good) as (parts, clock):
        await parts.cloud.clusters()

        assert clock.monotonic() == pytest.approx(17.0, abs=0.01)
    assert parts.guard.snapshot().calls_per_minute == 100_000


@pytest.mark.parametrize(
    ("first", "sent", "error"),
    [
        (refusing(429), 2, None),
        (refusing(500), 1, CloudUnknownError),
        (refusing(400, "CONFLICT", "invalid state change"), 1, CloudUnknownError),
        (refusing(400, "VALIDATOR_PARAM"), 1, CloudRefusedError),
        (refusing(400, "RESOURCE_NOT_FOUND"), 1, CloudRefusedError),
    ],
)
async def test_a_change_is_repeated_only_if_it_certainly_did_not_happen(
    first: Respond, sent: int, error: type[Exception] | None
) -> None:
    """A throttled one was not carried out; a broken answer may hide a deed."""
    async with provider(first, lambda: web.json_response({})) as (parts, _):
        if error is None:
            await parts.cloud.start("abc")
        else:
            with pytest.raises(error):
                await parts.cloud.start("abc")

    assert parts.counted.sent == sent


async def test_deleting_what_is_gone_is_done() -> None:
    """Not found is what a delete wants to hear."""
    async with provider(refusing(400, "RESOURCE_NOT_FOUND", "instance not found")) as (parts, _):
        await parts.cloud.delete("abc")
        assert await parts.cloud.instance("abc") is None

    assert parts.guard.snapshot().breaker is BreakerState.CLOSED


async def test_an_outage_is_reported_before_the_breaker_opens() -> None:
    """`/health` called the provider up for the first 33 s of an outage; one failure that passes is none, though."""
    async with provider(refusing(500), refusing(500), good, most_retries=0) as (parts, _):
        reachable = [parts.guard.snapshot().is_reachable]
        for _ in range(2):
            with pytest.raises(CloudTransientError):
                await parts.cloud.clusters()
            reachable.append(parts.guard.snapshot().is_reachable)
        await parts.cloud.clusters()
        reachable.append(parts.guard.snapshot().is_reachable)

    assert reachable == [True, True, False, True]


async def test_a_silent_provider_is_reported_before_any_call_has_timed_out() -> None:
    """Its first calls are waited for half a minute; an idle service has none under way and knows nothing new."""
    clock = SteppedClock()
    async with upstream(never) as address, guarding(address, clock, timeout_seconds=60) as parts:
        clock.advance(3600)
        idle = parts.guard.snapshot().is_reachable
        asking = asyncio.create_task(parts.cloud.clusters())
        await until(lambda: parts.counted.sent == 1, what="the call")
        reachable = list[bool]()
        for _ in range(3):
            reachable.append(parts.guard.snapshot().is_reachable)
            clock.advance(6)
        asking.cancel()
        await asyncio.wait({asking})
        after = parts.guard.snapshot().is_reachable

    assert idle
    assert reachable == [True, True, False]
    assert after, "a cancelled call proves nothing about the provider"


async def test_a_pause_of_minutes_is_left_to_the_caller() -> None:
    """The provider's Retry-After is obeyed in full, and no request hangs here meanwhile."""
    async with provider(refusing(429, Retry_After="600"), good) as (parts, clock):
        with pytest.raises(CloudTransientError) as caught:
            await parts.cloud.clusters()

        assert clock.monotonic() < 1
    assert (parts.counted.sent, caught.value.retry_after_seconds) == (1, 600.0)


async def test_a_failing_provider_is_left_alone_and_tried_again() -> None:
    """Five failures open the breaker; nothing is sent for 5 s; one success closes it."""
    responses = [refusing(500)] * 5 + [good]
    async with provider(*responses, most_retries=4) as (parts, clock):
        with pytest.raises(CloudTransientError):
            await parts.cloud.clusters()
        opened = parts.guard.snapshot()
        with pytest.raises(CircuitOpenError) as caught:
            await parts.cloud.clusters()
        sent = parts.counted.sent
        await clock.sleep(5.0)
        half_open = parts.guard.snapshot()
        await parts.cloud.clusters()
        closed = parts.guard.snapshot()

    assert (opened.breaker, opened.is_reachable, opened.last_failure) == (BreakerState.OPEN, False, "HTTP 500")
    assert sent == 5
    assert caught.value.retry_after_seconds == pytest.approx(5.0)
    assert (half_open.breaker, closed.breaker, closed.is_reachable) == (
        BreakerState.HALF_OPEN,
        BreakerState.CLOSED,
        True,
    )
    assert not half_open.is_reachable, "nothing has succeeded yet"
    assert closed.last_answer_at is not None


async def open_breaker(parts: Guarding) -> None:
    """Let as many reads fail as open the breaker."""
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(CloudTransientError):
            await parts.cloud.clusters()
    assert parts.guard.snapshot().breaker is BreakerState.OPEN


async def test_a_stop_is_sent_while_the_breaker_is_open_and_another_two_seconds_later() -> None:
    """Stops of healthy machines waited for up to a minute while others hung, and every second is billed."""
    async with provider(refusing(500), most_retries=0) as (parts, clock):
        await open_breaker(parts)
        began, sent_before = clock.monotonic(), parts.counted.sent
        with pytest.raises(CloudUnknownError):
            await parts.cloud.stop("p1")
        await clock.sleep(0.5)
        with pytest.raises(CircuitOpenError) as second:
            await parts.cloud.delete("p2")
        with pytest.raises(CircuitOpenError) as other:
            await parts.cloud.start("p3")
        await clock.sleep(second.value.retry_after_seconds or 0.0)
        with pytest.raises(CloudUnknownError):
            await parts.cloud.delete("p2")
        took, sent = clock.monotonic() - began, parts.counted.sent - sent_before
        with pytest.raises(CircuitOpenError):
            await parts.cloud.start("p3")

    assert (second.value.retry_after_seconds, other.value.retry_after_seconds) == pytest.approx((1.5, 4.5))
    assert took == pytest.approx(2.0)
    assert sent == 2


async def test_a_refused_stop_comes_back_in_less_than_a_second_if_it_may() -> None:
    """The least pause of other calls, a second, is not for what ends a bill."""
    async with provider(refusing(500), most_retries=0) as (parts, clock):
        await open_breaker(parts)
        with pytest.raises(CloudUnknownError):
            await parts.cloud.stop("p1")
        await clock.sleep(1.75)
        with pytest.raises(CircuitOpenError) as caught:
            await parts.cloud.stop("p2")

    assert caught.value.retry_after_seconds == pytest.approx(0.25)


async def test_stops_at_the_same_time_take_one_permit_while_the_breaker_is_open() -> None:
    """Permits for calls that are not sent would use the rate limit up; those that are refused come back in turn."""
    async with provider(refusing(500), most_retries=0, fixed=60) as (parts, clock):
        await open_breaker(parts)
        began, sent_before = clock.monotonic(), parts.counted.sent
        ends = await asyncio.gather(*[parts.cloud.stop(f"p{n}") for n in range(100)], return_exceptions=True)
        took, sent = clock.monotonic() - began, parts.counted.sent - sent_before

    refused = [end.retry_after_seconds or 0.0 for end in ends if isinstance(end, CircuitOpenError)]
    assert (sent, len(refused)) == (1, 99)
    assert sorted(refused) == pytest.approx([2.0, 4.0, 6.0, 8.0, *[10.0] * 95])
    assert took < 1, "none waited for the rate limit"


async def test_a_stop_is_sent_while_hanging_reads_hold_every_trial() -> None:
    """They did so for half a minute; a stop that works shows that the provider answers."""
    reads = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal reads
        if request.method == "POST":
            return web.json_response({})
        reads += 1
        return refusing(500)() if reads <= FAILURES_TO_OPEN else await never(request)

    clock = SteppedClock()
    async with upstream(answer) as address, guarding(address, clock, most_retries=0, timeout_seconds=60) as parts:
        await open_breaker(parts)
        clock.advance(5)
        trials = [asyncio.create_task(parts.cloud.clusters()) for _ in range(MOST_TRIALS)]
        await until(lambda: parts.counted.sent == FAILURES_TO_OPEN + MOST_TRIALS, what="the trials")
        with pytest.raises(CircuitOpenError):
            await parts.cloud.start("p1")

        await parts.cloud.stop("p2")

        after = parts.guard.snapshot().breaker
        for trial in trials:
            trial.cancel()
        await asyncio.wait(trials)

    assert after is BreakerState.CLOSED


async def test_refusals_never_open_the_breaker() -> None:
    """A provider that says no is there."""
    async with provider(refusing(400, "VALIDATOR_PARAM")) as (parts, _):
        for _attempt in range(10):
            with pytest.raises(CloudRefusedError):
                await parts.cloud.start("abc")

    assert parts.guard.snapshot().breaker is BreakerState.CLOSED


async def test_a_time_out_of_a_read_says_so() -> None:
    """The API answers 504 for it."""
    clock = RacingClock()
    async with (
        upstream(never) as address,
        guarding(address, clock, most_retries=1, timeout_seconds=0.1) as parts,
        clock.racing(is_busy=parts.is_busy),
    ):
        with pytest.raises(CloudTransientError) as caught:
            await parts.cloud.clusters()

    assert (caught.value.code, parts.counted.sent) == ("NOVITA_API_TIMEOUT", 2)


async def test_calls_are_counted_by_endpoint_and_outcome() -> None:
    """For the numbers page."""
    async with provider(refusing(500), good) as (parts, _):
        await parts.cloud.clusters()

    def count(outcome: str) -> float:
        return float(parts.metrics.provider_calls.labels("clusters", outcome)._value.get())

    assert (count("ok"), count("may_have_happened")) == (1, 1)
    assert parts.metrics.provider_retries.labels("clusters")._value.get() == 1
    assert parts.metrics.provider_breaker.labels("CLOSED")._value.get() == 1


@pytest.mark.parametrize("body", [b"{}", b'{"instances":null}', b"[]"])
async def test_an_empty_answer_is_not_an_empty_account(body: bytes) -> None:
    """Taking it for one would make every instance vanish."""
    async with provider(lambda: web.Response(body=body), most_retries=1) as (parts, _):
        with pytest.raises(CloudTransientError):
            await parts.cloud.instances()
        with pytest.raises(CloudTransientError):
            await parts.cloud.instance("abc")
