"""The event log, page by page or as events happen."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import msgspec

from corral_client.errors import UNREADABLE, CorralApiError, ServerError
from corral_client.models import Event, EventPage
from corral_client.sse import Decoder
from corral_client.transport import Transport, delay

PATIENCE_SECONDS: Final = 60.0
"""How long a stream or a wait retries without reaching the service: a restart takes seconds."""
PAGE: Final = 500


class AsyncEvents:
    """`client.events`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, *, after: int = 0, instance_id: str | None = None) -> AsyncGenerator[Event]:
        """
        All events after number *after*, oldest first, up to the newest there is.

            >>> seen = 0  # from your own records
            >>> async for event in client.events.list(after=seen):
            ...     seen = event.seq
        """
        while True:
            query = {"after": after, "instanceId": instance_id, "limit": PAGE}
            page = await self._transport.get(EventPage, "/api/events", query)
            for event in page.events:
                yield event
            if len(page.events) < PAGE:
                return
            after = page.next_after

    async def latest(self, count: int = 100, *, after: int = 0, instance_id: str | None = None) -> Sequence[Event]:
        """
        The newest *count* events (at most 500), oldest of them first.

            >>> [event.instance_id for event in await client.events.latest(1)] != []
            True
        """
        query = {"after": after, "instanceId": instance_id, "last": count}
        return (await self._transport.get(EventPage, "/api/events", query)).events

    async def follow(
        self,
        *,
        after: int | None = None,
        instance_id: str | None = None,
        patience: float = PATIENCE_SECONDS,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[Event]:
        """
        Each event as it happens, without end; a lost connection is resumed after the last event that was yielded.

        Begins after number *after*; without it, with the next event (and until a first one came, a reconnection begins
        with the next one again: pass a number to be sure to miss nothing). *on_open* is called at every connection.
        Raises when the service refuses, or was not reached for *patience* seconds.

            >>> seen = 0  # from your own records
            >>> async for event in client.events.follow(after=seen):
            ...     seen = event.seq
            ...     if event.event == "instance.ready":
            ...         break
        """
        failures, reached_at, pause = 0, time.monotonic(), 0.0
        while True:
            try:
                headers = {} if after is None else {"Last-Event-ID": str(after)}
                query = {"after": after, "instanceId": instance_id}
                async with self._transport.stream("/api/events/stream", query, headers) as pieces:
                    if on_open is not None:
                        on_open()
                    decoder = Decoder()
                    async for piece in pieces:
                        failures, reached_at = 0, time.monotonic()
                        for message in decoder.feed(piece):
                            pause = pause if message.retry_seconds is None else message.retry_seconds
                            if message.data:
                                event = read_event(message.data)
                                after = event.seq
                                yield event
            except CorralApiError as error:
                if not error.retryable or time.monotonic() - reached_at > patience:
                    raise
                wait = max(delay(failures), error.retry_after or 0.0)
                failures += 1
            else:
                wait = max(pause, delay(0))
            await self._transport.sleep(wait)


def read_event(data: str) -> Event:
    """The event in a message of the stream; raises ServerError if it does not come from Corral."""
    try:
        return msgspec.json.decode(data, type=Event)
    except UNREADABLE as problem:
        message = f"the stream sent something that is not from Corral: {problem}"
        raise ServerError(message, code="UNREADABLE_ANSWER") from problem
