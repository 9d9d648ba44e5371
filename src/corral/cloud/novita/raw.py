"""
Calls whose answers are returned unread: whatever the status, the headers and the JSON.

For `engine/verification/`, which compares the provider's answers with what the rest of `cloud/novita` assumes. Nothing
here is repeated or limited.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from corral.base.clock import Clock
from corral.cloud.exchange import Call, FaultError, Service
from corral.cloud.novita.client import MOST_LISTING_BYTES
from corral.cloud.novita.http import HttpExchange, RawResponse
from corral.domain.verification.evidence import ProviderAnswer


class RawCalls:
    """One account at novita.ai, call by call."""

    def __init__(self, exchange: HttpExchange, clock: Clock) -> None:
        self._exchange = exchange
        self._clock = clock

    async def get(
        self, path: str, query: Mapping[str, str] | None = None, *, service: Service = Service.INSTANCES
    ) -> ProviderAnswer:
        """Read *path*; a call that got no whole answer is an answer without a status."""
        call = Call(
            endpoint="verify",
            method="GET",
            path=path,
            query=dict(query or {}),
            most_bytes=MOST_LISTING_BYTES,
            service=service,
        )
        return await self._sent(call, query or {})

    async def post(self, path: str, body: Mapping[str, object]) -> ProviderAnswer:
        """Send *body* to *path*, once."""
        call = Call(endpoint="verify", method="POST", path=path, body=msgspec.json.encode(body))
        return await self._sent(call, {})

    async def _sent(self, call: Call, asked: Mapping[str, str]) -> ProviderAnswer:
        try:
            found = await self._exchange.read(call)
        except FaultError as fault:
            return ProviderAnswer(received_at=self._clock.now(), status=None, asked=asked, failure=fault.because)
        return provider_answer(found, asked, self._clock)


def provider_answer(found: RawResponse, asked: Mapping[str, str], clock: Clock) -> ProviderAnswer:
    """The answer *found* with its JSON decoded, if it is JSON."""
    content, is_json = _decoded(found.content)
    return ProviderAnswer(
        received_at=clock.now(),
        status=found.status,
        asked=asked,
        headers={name.lower(): value for name, value in found.headers.items()},
        content=content,
        is_json=is_json,
        provider_time=found.provider_time,
    )


def _decoded(content: bytes | None) -> tuple[object, bool]:
    try:
        return (None, False) if content is None else (msgspec.json.decode(content), True)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None, False
