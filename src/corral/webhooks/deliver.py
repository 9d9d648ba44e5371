"""
One attempt to deliver one message.

The receiver is not trusted: it has a time-out, only the status of its response counts, redirects are not followed (they
would bypass the guard) and the body is not read. Nothing is stored and nothing raises; the outcome is an `Attempt`.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import aiohttp

from corral import __version__
from corral.base.clock import Clock
from corral.base.network_errors import EXCHANGE_ERRORS, AddressRefusedError, fault_category, fault_message
from corral.base.tracing import tracing
from corral.domain.delivery import DeliveryAttempt, WebhookFormat, receiver_parts
from corral.domain.health.network_faults import status_category
from corral.webhooks.guard import AddressGuard
from corral.webhooks.schedule import LONGEST_RETRY_AFTER, AttemptOutcome, outcome_of
from corral.webhooks.sign import headers
from corral.webhooks.slots import Target

IDLE_CONNECTION_SECONDS = 2.0
"""How long a connection is kept for the next message. Enough for the events of a burst to share one. Servers close idle
connections after 5 s and more; keeping one that long would now and then send a message into a closing connection, and
wait for the retry."""

NOWHERE = Target(receiver="", address="")
_SECONDS = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,9})?")
"""Discord also sends fractions of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(DeliveryAttempt):
    """The outcome of one attempt."""

    outcome: AttemptOutcome
    retry_after: timedelta | None = None
    """How long the receiver asks us to wait (`Retry-After` in seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sends messages, for all deliveries at once. Made by `open`."""

    session: aiohttp.ClientSession
    clock: Clock
    guard: AddressGuard
    timeout_seconds: float
    key: bytes | None
    """By which messages are signed; None: they are not."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, *, clock: Clock, guard: AddressGuard, timeout_ms: int, key: bytes | None
    ) -> AsyncGenerator[Self]:
        """A sender for the length of the block; it signs with *key* when there is one."""
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=guard.pinned_resolver(),
                socket_factory=guard.open_socket,
                keepalive_timeout=IDLE_CONNECTION_SECONDS,
                limit=0,  # jobs limit how many run; waiting for a free connection would eat into the time-out
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            trust_env=False,  # a proxy would bypass the guard
            headers={"User-Agent": f"Corral/{__version__} (webhook)", "Content-Type": "application/json"},
        ) as session:
            yield cls(session=session, clock=clock, guard=guard, timeout_seconds=timeout_ms / 1000, key=key)

    async def target(self, address: str) -> Target:
        """Where a message to *address* goes; an invalid one, which `send` refuses at once, has the target `NOWHERE`."""
        _, url = receiver_parts(address)
        return NOWHERE if self.guard.fault(url) is not None else await self.guard.target(url)

    async def send(self, address: str, body: bytes, *, message_id: str) -> Attempt:
        """
        POST *body* to *address* once, signed as *message_id*; the same id for every attempt of one message.

        A chat cannot verify a signature, so a message to one has none, and no id.
        """
        chosen, url = receiver_parts(address)
        signing_id = message_id if chosen is WebhookFormat.STANDARD else None
        at, began = self.clock.now(), self.clock.monotonic()
        status, retry_after, fault = None, None, self.guard.fault(url)
        outcome, reason = AttemptOutcome.FINAL, f"address_refused: {fault}"
        if fault is None:
            with tracing.call_span("webhook") as span:
                try:
                    status, retry_after = await self._post(url, body, signing_id)
                except EXCHANGE_ERRORS as error:
                    outcome, reason = AttemptOutcome.RETRY, _reason(error)
                else:
                    outcome, reason = outcome_of(status), f"{status_category(status)}: answered with status {status}"
                span.note(failed=outcome is not AttemptOutcome.DELIVERED, status=status, outcome=outcome)
        return Attempt(
            at=at,
            outcome=outcome,
            http_status=status,
            duration_ms=round((self.clock.monotonic() - began) * 1000),
            error=None if outcome is AttemptOutcome.DELIVERED else reason,
            retry_after=retry_after,
        )

    async def _post(self, url: str, body: bytes, message_id: str | None) -> tuple[int, timedelta | None]:
        signed = {}
        if message_id is not None:
            signed = headers(body, message_id=message_id, sent_at=self.clock.now(), key=self.key)
        async with asyncio.timeout(self.timeout_seconds):
            # Leaving the block closes the connection unless the whole answer is already here.
            async with self.session.post(url, data=body, headers=signed, allow_redirects=False) as response:
                return response.status, _retry_after(response.headers.get("Retry-After", ""))


def _retry_after(text: str) -> timedelta | None:
    """The seconds of a `Retry-After`, rounded up, an hour at most; a date, its other form, is ignored."""
    if not _SECONDS.fullmatch(text):
        return None
    return timedelta(seconds=math.ceil(min(float(text), LONGEST_RETRY_AFTER.total_seconds())))


def _reason(error: BaseException) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, AddressRefusedError):
        return f"address_refused: {cause.strerror}"
    return f"{fault_category(error)}: {fault_message(error)}"
