"""The event log, page by page or as events happen."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Final

import msgspec

from corral_client.errors import UNREADABLE, CorralApiError, ServerError
from corral_client.models.instances import Event, EventPage
from corral_client.transport import Transport, delay

PATIENCE_SECONDS: Final = 60.0
"""How long a stream or a wait retries without reaching the service: a restart takes seconds."""
PAGE: Final = 500
_MOST_DIGITS: Final = 9
"""Of milliseconds: eleven days; a longer retry time is ignored."""


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
                    decoder = StreamDecoder()
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


class StreamMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the stream; `retry_seconds` is how long the sender asks to wait before a reconnection."""

    data: str
    id: str | None = None
    retry_seconds: float | None = None


class StreamDecoder:
    """Reads the server-sent events of one connection, from bytes that arrive in any pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._id: str | None = None
        self._retry: float | None = None

    def feed(self, chunk: bytes) -> Iterator[StreamMessage]:
        """The messages that *chunk* completes; comments are dropped."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            message = self._take(line.removesuffix(b"\r").decode("utf-8", "replace"))
            if message is not None:
                yield message

    def _take(self, line: str) -> StreamMessage | None:
        if not line:
            return self._end()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case "retry" if value.isdecimal() and len(value) <= _MOST_DIGITS:
                self._retry = int(value) / 1000
            case _:
                pass
        return None

    def _end(self) -> StreamMessage | None:
        if not self._data and self._retry is None:
            return None
        message = StreamMessage(data="\n".join(self._data), id=self._id, retry_seconds=self._retry)
        self._data, self._retry = [], None
        return message
