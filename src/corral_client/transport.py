"""
Requests with retries.

A request is repeated when nothing came back, or when the answer says that the same request may succeed later. That is
safe for every method: a POST or DELETE carries an `Idempotency-Key` made before its first attempt, so a repetition of
one that was executed gets the first answer again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import aiohttp
import msgspec
from yarl import URL

from corral_client.errors import (
    UNREADABLE,
    ConnectionFailed,
    CorralApiError,
    Invalid,
    OutOfStock,
    ServerError,
    Unauthorised,
    error_of,
)

LONGEST_RETRY_AFTER: Final = 60.0
"""Seconds; a longer Retry-After is raised to the caller instead of waited for."""
FIRST_DELAY: Final = 0.25
LONGEST_DELAY: Final = 8.0
SILENCE_SECONDS: Final = 45.0
"""A stream sends something every 15 s; after three times that without a byte it is dead."""

T = TypeVar("T")
Query = Mapping[str, str | int | float | bool | Sequence[str] | None]


async def pause(seconds: float) -> None:
    """Sleep."""
    await asyncio.sleep(seconds)  # noqa: TID251  # this package has no Clock


def delay(attempt: int) -> float:
    """Seconds before retry number *attempt* (from 0) without a Retry-After: doubling, with jitter."""
    return random.uniform(0.5, 1.0) * min(LONGEST_DELAY, FIRST_DELAY * 2.0**attempt)  # noqa: S311  # no secret


class Transport:
    """The connections to one service. Made anywhere; used in one event loop."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        timeout: float,
        max_retries: int,
        sleep: Callable[[float], Awaitable[None]] = pause,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.max_retries = max_retries
        self.sleep = sleep
        self._timeout = timeout
        self._headers = {"Accept": "application/json", "User-Agent": "corral-client"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key.strip()}"
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, kind: type[T], path: str, query: Query | None = None, *, also: tuple[int, ...] = ()) -> T:
        """Read; a status in *also* has a result in its body, not an error."""
        return await self._insist("GET", kind, path, query=query, also=also)

    async def act(
        self, method: str, kind: type[T], path: str, *, query: Query | None = None, body: object = None, key: str | None
    ) -> T:
        """Send a change; retries have the same idempotency key, *key* or a random one, so it happens once."""
        if key is not None and not _can_be_sent(key):
            raise Invalid("an idempotency key has printable ASCII characters only", code="VALIDATION_ERROR")
        headers = {"Idempotency-Key": key or f"sdk-{secrets.token_hex(16)}"}
        data = None if body is None else msgspec.json.encode(body)
        return await self._insist(method, kind, path, query=query, headers=headers, data=data)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, query: Query, headers: Mapping[str, str], *, silence: float = SILENCE_SECONDS
    ) -> AsyncGenerator[AsyncGenerator[bytes]]:
        """
        One attempt to open a stream: its bytes, until it ends; raises CorralApiError, also while it is read.

        After *silence* seconds without a byte it counts as lost.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=silence)
        with self._connection_errors():
            async with self._open().get(
                self._url(path, query),
                headers={"Accept": "text/event-stream", **headers},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if response.status != 200:  # noqa: PLR2004
                    raise error_of(response.status, response.headers, await response.read())
                async with contextlib.aclosing(self._pieces(response)) as pieces:
                    yield pieces

    async def _pieces(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
        with self._connection_errors():
            async for piece in response.content.iter_any():
                yield piece

    async def _insist(self, method: str, kind: type[T], path: str, **request: Any) -> T:
        attempt = 0
        while True:
            try:
                return await self._ask(method, kind, path, **request)
            except CorralApiError as error:
                wait = delay(attempt) if error.retry_after is None else error.retry_after
                final = not error.retryable or isinstance(error, OutOfStock)
                if final or attempt >= self.max_retries or wait > LONGEST_RETRY_AFTER:
                    raise
            attempt += 1
            await self.sleep(wait)

    async def _ask(
        self,
        method: str,
        kind: type[T],
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        also: tuple[int, ...] = (),
    ) -> T:
        sent = {**(headers or {}), **({} if data is None else {"Content-Type": "application/json"})}
        timeout = aiohttp.ClientTimeout(total=self._timeout)
        with self._connection_errors():
            async with self._open().request(
                method, self._url(path, query or {}), headers=sent, data=data, timeout=timeout, allow_redirects=False
            ) as response:
                body, status = await response.read(), response.status
        if not (200 <= status < 300 or status in also):  # noqa: PLR2004
            raise error_of(status, response.headers, body)
        try:
            return msgspec.json.decode(body, type=kind)
        except UNREADABLE as problem:
            if status in also:
                raise error_of(status, response.headers, body) from problem
            raise ServerError(
                f"{self.base_url} answered something that is not from Corral: {problem}",
                code="UNREADABLE_ANSWER",
                status=status,
                request_id=response.headers.get("X-Request-ID"),
            ) from problem

    @contextlib.contextmanager
    def _connection_errors(self) -> Any:
        """Raise every connection error as ConnectionFailed."""
        try:
            yield
        except TimeoutError as error:
            message = f"{self.base_url} did not answer in time"
            raise ConnectionFailed(message, code="TIMEOUT", retryable=True) from error
        except aiohttp.InvalidURL as error:
            raise ConnectionFailed(f"{self.base_url!r} is not an http:// address", code="INVALID_URL") from error
        except (aiohttp.ClientError, OSError) as error:
            message = f"{self.base_url} cannot be reached: {_cause(error)}"
            raise ConnectionFailed(message, code="CONNECTION_FAILED", retryable=True) from error

    def _open(self) -> aiohttp.ClientSession:
        if not _can_be_sent(self._headers.get("Authorization", "")):
            raise Unauthorised("an API key has printable ASCII characters only", code="UNAUTHORIZED")
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers)
        return self._session

    def _url(self, path: str, query: Query) -> URL:
        try:
            url = URL(self.base_url + path, encoded=True)
            has_user, is_web = url.raw_user is not None, url.scheme in {"http", "https"}  # which read host and port
        except ValueError as error:
            raise aiohttp.InvalidURL(self.base_url) from error
        if has_user:  # not named: it has a password
            message = "the address of the service must not have a user name or a password"
            raise ConnectionFailed(message, code="INVALID_URL")
        if not is_web:
            raise aiohttp.InvalidURL(self.base_url)
        return url.with_query({name: _text(value) for name, value in query.items() if value is not None})


def _can_be_sent(value: str) -> bool:
    """Whether a header can carry *value*; the HTTP library raises an error of its own otherwise."""
    return value.isascii() and value.isprintable()


def _cause(error: Exception) -> str:
    """Why, in the words of the system where it has some."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else str(error) or type(error).__name__


def _text(value: str | float | Sequence[str]) -> str | list[str]:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            return list(value)
