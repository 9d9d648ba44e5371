"""Server-sent events, read from bytes that arrive in any pieces."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_MOST_DIGITS = 9
"""Of milliseconds: eleven days; a longer retry time is ignored."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message; `retry_seconds` is how long the sender asks to wait before a reconnection."""

    data: str
    id: str | None = None
    retry_seconds: float | None = None


class Decoder:
    """Reads one connection's stream."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._id: str | None = None
        self._retry: float | None = None

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that *chunk* completes; comments are dropped."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            message = self._take(line.removesuffix(b"\r").decode("utf-8", "replace"))
            if message is not None:
                yield message

    def _take(self, line: str) -> Message | None:
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

    def _end(self) -> Message | None:
        if not self._data and self._retry is None:
            return None
        message = Message(data="\n".join(self._data), id=self._id, retry_seconds=self._retry)
        self._data, self._retry = [], None
        return message
