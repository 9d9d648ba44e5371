"""
Calls to the provider within the rate limit, not while it is failing, and repeated where that is safe.

`GuardedExchange` wraps a bare exchange, request by request, so that every page of a listing and every retry takes its
own permit and reports its outcome to the breaker. Only reads, and changes that certainly did not happen, are repeated.
A change that may have happened is an error for the caller, which looks it up first. Stops and deletes are sent, one
every two seconds, also while the provider is failing.

Calls to the provider's other services (`Service`) take a permit as well, but neither their refusals nor their outages
have an effect on the calls that machines need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.cloud.breaker import URGENT_SECONDS, Breaker, BreakerState, Ticket
from corral.cloud.exchange import Answer, Call, CallOutcome, Exchange, FaultError, Service
from corral.cloud.rate_limit.lanes import Permit, ReadKind
from corral.cloud.rate_limit.refusals import RefusalPause
from corral.cloud.rate_limit.sample_share import SampleShare
from corral.cloud.rate_limit.throttle import Throttle
from corral.domain.errors import CircuitOpenError
from corral.domain.timing import delay, jittered

FIRST_DELAY_SECONDS: Final = 1.0
MOST_DELAY_SECONDS: Final = 30.0
URGENT_DELAY_SECONDS: Final = 2.0
"""
The longest pause before a stop or delete that was not carried out is sent again.

Longer, and a machine is billed for so long after throttling ended; shorter, and a provider that throttles is asked more
often than needed to notice that it stopped.
"""
MOST_URGENT_WAIT_SECONDS: Final = 10.0
"""
The longest after which a stop or delete comes back that the breaker did not let through.

Longer, and machines are billed for so long after the provider is back; shorter, and hundreds of them load the database
while it is down.
"""
MOST_WAIT_SECONDS: Final = 60.0
"""Where the provider asks for a longer pause, the call fails and the caller retries later."""
JITTER: Final = 0.25
"""A quarter either way, so that callers that failed together do not retry together."""


FAILURES_OF_AN_OUTAGE: Final = 2
"""One failed request happens to every provider and is repeated after a second; reported at once, it would make
`/health` flap. More would report an outage late: the breaker opens only after five."""
SILENCE_SECONDS: Final = 10.0
"""A provider that answers nothing for this long is down, although no request has timed out yet (30 s by default).
Shorter, and one slow listing counts as an outage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachability:
    """What `/health` shows of the provider."""

    breaker: BreakerState
    calls_per_minute: int
    """The present limit."""
    last_answer_at: datetime | None
    """When it last answered, even with a refusal."""
    last_failure_at: datetime | None
    """When a request last failed because of the provider."""
    last_failure: str | None
    failures_in_a_row: int = 0
    """Requests that failed because of the provider since it last answered."""
    silent_seconds: float = 0.0
    """For how long requests have been under way without any answer."""

    @property
    def is_reachable(self) -> bool:
        """
        Whether the provider works, as far as is known; it counts as reachable before the first call.

        A breaker that is half open proves nothing: only an answer does.
        """
        if self.breaker is not BreakerState.CLOSED:
            return False
        return self.failures_in_a_row < FAILURES_OF_AN_OUTAGE and self.silent_seconds < SILENCE_SECONDS


class GuardedExchange:
    """An Exchange around another. *jitter* gives numbers in [0, 1)."""

    def __init__(
        self,
        bare: Exchange,
        *,
        throttle: Throttle,
        breaker: Breaker,
        most_retries: int,
        clock: Clock,
        jitter: Callable[[], float],
        metrics: Metrics,
        samples: SampleShare | None = None,
    ) -> None:
        self._bare = bare
        self._samples = samples
        self._throttle = throttle
        self._breaker = breaker
        self._most_retries = most_retries
        self._clock = clock
        self._jitter = jitter
        self._metrics = metrics
        self._last_answer_at: datetime | None = None
        self._last_failure_at: datetime | None = None
        self._last_failure: str | None = None
        self._failures_in_a_row = 0
        self._answered_at = clock.monotonic()
        self._under_way: dict[Ticket, float] = {}
        self._urgent_waiting = 0
        self._urgent_refused = 0
        """Since one was sent."""
        self._pauses = {service: RefusalPause() for service in Service}
        self._shown_state: BreakerState | None = None
        self._update_breaker()

    @property
    def provider_time(self) -> datetime | None:
        """The time by the provider's clock when it last answered."""
        return self._bare.provider_time

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        """
        Send *call*, repeating it where that is safe.

        Raises what the bare exchange last raised, CircuitOpenError without sending, or CloudTransientError when no
        permit was granted in time.
        """
        attempt = 1
        while True:
            try:
                return await self._once(call, answer)
            except FaultError as fault:
                pause = self._pause(attempt, fault, URGENT_DELAY_SECONDS if call.is_urgent else MOST_DELAY_SECONDS)
                if attempt > self._most_retries or not call.may_repeat(fault.outcome) or pause > MOST_WAIT_SECONDS:
                    raise
                log.debug(
                    "cloud.retried", endpoint=call.endpoint, attempt=attempt, seconds=pause, because=fault.because
                )
                self._metrics.provider_retries.labels(call.endpoint).inc()
            await self._clock.sleep(pause)
            attempt += 1

    def snapshot(self) -> Reachability:
        """Whether the provider can be reached, and how often it may be called."""
        return Reachability(
            breaker=self._update_breaker(),
            calls_per_minute=self._throttle.limit,
            last_answer_at=self._last_answer_at,
            last_failure_at=self._last_failure_at,
            last_failure=self._last_failure,
            failures_in_a_row=self._failures_in_a_row,
            silent_seconds=self._silent_seconds(),
        )

    def _silent_seconds(self) -> float:
        if not self._under_way:
            return 0.0
        waiting_since = min(self._under_way.values())
        return self._clock.monotonic() - max(waiting_since, self._answered_at)

    async def _once(self, call: Call, answer: type[Answer]) -> Answer:
        # Checked before the wait, to fail fast; again after it, because the state may have changed meanwhile.
        self._check(call)
        if call.is_sample and self._samples is not None:
            await self._samples.take()
        permit = await self._permit(call)
        try:
            send = self._send if call.service is Service.INSTANCES else self._send_to_other
            found = await send(call, answer, permit)
        finally:
            self._throttle.leave(permit)
        self._metrics.provider_calls.labels(call.endpoint, "ok").inc()
        return found

    async def _permit(self, call: Call) -> Permit:
        self._urgent_waiting += call.is_urgent
        try:
            return await self._throttle.enter(
                change=call.changes,
                max_wait_seconds=call.max_wait_seconds,
                kind=ReadKind.PAGE if call.is_page else ReadKind.SAMPLE if call.is_sample else ReadKind.LOOKUP,
                is_urgent=call.is_urgent,
                is_awaited=call.is_awaited,
            )
        finally:
            self._urgent_waiting -= call.is_urgent

    async def _send(self, call: Call, answer: type[Answer], permit: Permit) -> Answer:
        """Send *call* and report its outcome to the breaker and, if it was refused, to the throttle."""
        began = self._clock.monotonic()
        ticket = self._breaker.enter(began, is_urgent=call.is_urgent)
        if ticket is None:
            raise self._circuit_open(call)
        self._urgent_refused = 0 if call.is_urgent else self._urgent_refused
        self._update_breaker()
        self._under_way[ticket] = began
        healthy: bool | None = None
        try:
            found = await self._bare.ask(call, answer)
            healthy = True
        except FaultError as fault:
            healthy = not fault.blames_provider
            self._note_failure(call, fault)
            if fault.outcome is CallOutcome.THROTTLED:
                await self._throttle.throttled(permit, fault.retry_after_seconds)
            raise
        finally:
            ended = self._clock.monotonic()
            self._under_way.pop(ticket, None)
            if healthy is not None:
                self._failures_in_a_row = 0 if healthy else self._failures_in_a_row + 1
                self._answered_at = ended if healthy else self._answered_at
            self._metrics.provider_call_seconds.labels(call.endpoint).observe(ended - began)
            self._breaker.leave(ticket, healthy=healthy, now=ended)
            self._update_breaker()
        self._last_answer_at = self._clock.now()
        return found

    async def _send_to_other(self, call: Call, answer: type[Answer], _permit: Permit) -> Answer:
        """Send *call* to another service, whose refusals and outages concern only the calls to it."""
        self._check(call)
        began = self._clock.monotonic()
        try:
            return await self._bare.ask(call, answer)
        except FaultError as fault:
            self._metrics.provider_calls.labels(call.endpoint, fault.outcome.value).inc()
            pause, now, retry_after = self._pauses[call.service], self._clock.monotonic(), fault.retry_after_seconds
            if fault.outcome is CallOutcome.THROTTLED and pause.refused(now, sent_at=began, asked_seconds=retry_after):
                log.info("cloud.service_paused", service=call.service, seconds=pause.left(now))
            raise
        finally:
            self._metrics.provider_call_seconds.labels(call.endpoint).observe(self._clock.monotonic() - began)

    def _check(self, call: Call) -> None:
        """Raise CircuitOpenError if the service of *call* is not called at the moment."""
        now = self._clock.monotonic()
        if call.service is Service.INSTANCES:
            # An urgent call that waits for its permit is the next to pass; others would take permits and not be sent.
            if not self._breaker.admits(now, is_urgent=call.is_urgent and not self._urgent_waiting):
                raise self._circuit_open(call)
        elif left := self._pauses[call.service].left(now):
            self._metrics.provider_calls.labels(call.endpoint, "circuit_open").inc()
            message = f"the provider refused {call.endpoint} for coming too often; try again later"
            raise CircuitOpenError(message, retry_after_seconds=max(1.0, left))

    def _note_failure(self, call: Call, fault: FaultError) -> None:
        self._metrics.provider_calls.labels(call.endpoint, fault.outcome.value).inc()
        if fault.blames_provider:
            self._last_failure_at = self._clock.now()
            self._last_failure = fault.because
        else:
            self._last_answer_at = self._clock.now()

    def _pause(self, attempt: int, fault: FaultError, most: float) -> float:
        """Seconds before the next attempt: what the provider asked for, or doubling from 1 s to *most*."""
        ours = delay(attempt, first=FIRST_DELAY_SECONDS, most=most)
        return max(jittered(ours, spread=JITTER, jitter=self._jitter()), fault.retry_after_seconds or 0.0)

    def _circuit_open(self, call: Call) -> CircuitOpenError:
        self._metrics.provider_calls.labels(call.endpoint, "circuit_open").inc()
        left = max(1.0, self._breaker.retry_after_seconds(self._clock.monotonic()))
        return CircuitOpenError(
            f"the provider keeps failing, so it was not asked for {call.endpoint}",
            retry_after_seconds=self._next_urgent_seconds() if call.is_urgent else left,
        )

    def _next_urgent_seconds(self) -> float:
        """When an urgent call that was refused may be sent: one after the other, in the order of the refusals."""
        left = self._breaker.retry_after_seconds(self._clock.monotonic(), is_urgent=True)
        before, self._urgent_refused = self._urgent_refused, self._urgent_refused + 1
        # With no time left it was refused because another one is about to be sent.
        return min((left or URGENT_SECONDS) + before * URGENT_SECONDS, MOST_URGENT_WAIT_SECONDS)

    def _update_breaker(self) -> BreakerState:
        """Return the state; update metrics and log if it changed."""
        now = self._clock.monotonic()
        state = self._breaker.state(now)
        if state is not self._shown_state:
            for each in BreakerState:
                self._metrics.provider_breaker.labels(each.value).set(each is state)
            if state is BreakerState.OPEN:
                log.warning("cloud.breaker_opened", seconds=self._breaker.retry_after_seconds(now))
            elif state is BreakerState.CLOSED and self._shown_state is not None:
                log.info("cloud.breaker_closed")
            self._shown_state = state
        return state
