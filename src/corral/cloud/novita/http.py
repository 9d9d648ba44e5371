"""
One HTTP request to the provider, and its answer within bounds.

Nothing here repeats, limits the rate or knows what an instance is. An answer is read up to the limit of the call,
counted after decompression, so that neither an endless body nor a decompression bomb does harm. Redirects are not
followed: the key must not be sent elsewhere. Neither bodies nor keys are logged.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from pydantic import SecretStr

from corral import __version__
from corral.base.clock import Clock
from corral.base.log import is_debugging, log
from corral.base.tracing import tracing
from corral.cloud.exchange import Answer, Call, FaultError
from corral.cloud.novita import faults, wire
from corral.cloud.rate_limit.throttle import MOST_IN_FLIGHT, URGENT_IN_FLIGHT

MOST_PROBLEM_BYTES: Final = 64 * 1024
"""A refusal is a few hundred bytes; of a longer one only the status counts."""
MOST_CONNECT_SECONDS: Final = 10.0
"""A host that is there accepts within a round trip or two; and what fails here was certainly not sent."""
KEEP_IDLE_SECONDS: Final = 15.0
"""Shorter than servers keep idle connections, so that a request seldom meets one that is being closed."""
_SUCCESS: Final = range(200, 300)
_ANY_ZLIB: Final = 32 + zlib.MAX_WBITS
_CHUNK: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RawResponse:
    """An answer before anything of it is understood."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    """Whatever the case of their names."""
    content: bytes | None = field(repr=False)
    """Unpacked; None if it is longer than the limit of the call."""
    provider_time: datetime | None


class HttpExchange:
    """An Exchange over HTTP; use it as an asynchronous context, or close it."""

    def __init__(self, *, base_url: str, api_key: SecretStr, timeout_seconds: float, clock: Clock) -> None:
        self._base_url = base_url.rstrip("/")
        self._origin = "://".join(urlsplit(base_url)[:2])
        self._api_key = api_key
        self._clock = clock
        self._timeout = aiohttp.ClientTimeout(
            total=timeout_seconds, connect=min(MOST_CONNECT_SECONDS, timeout_seconds / 2)
        )
        self._session: aiohttp.ClientSession | None = None
        self.provider_time: datetime | None = None
        """The time by the provider's clock, to the second, when it last answered."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(self, call: Call, answer: type[Answer]) -> Answer:
        """Send *call* once; raises FaultError."""
        began = self._clock.monotonic()
        status: int | None = None
        because: str | None = None
        outcome = "ok"
        with tracing.call_span(f"novita {call.endpoint}") as span:
            try:
                status, content = await self._send(call)
                return _read(status, content, answer)
            except FaultError as fault:
                status, because, outcome = fault.status, fault.because, fault.outcome.value
                raise
            finally:
                span.note(failed=because is not None, call=call.endpoint, status=status, outcome=outcome)
                if is_debugging():
                    seconds = round(self._clock.monotonic() - began, 4)
                    log.debug("cloud.called", endpoint=call.endpoint, status=status, because=because, seconds=seconds)

    async def read(self, call: Call) -> RawResponse:
        """Send *call* once and return its answer, also a refusal; raises FaultError without a whole one."""
        session = self._opened()
        if call.before_send is not None:
            await call.before_send()
        try:
            base = self._origin if call.is_at_origin else self._base_url
            async with session.request(
                call.method, base + call.path, params=call.query, data=call.body, allow_redirects=False
            ) as response:
                self.provider_time = _date(response.headers.get("Date"))
                most = call.most_bytes if response.status in _SUCCESS else MOST_PROBLEM_BYTES
                content = await _content(response, most)
                return RawResponse(
                    status=response.status, headers=response.headers, content=content, provider_time=self.provider_time
                )
        except aiohttp.ClientResponseError as error:
            raise faults.broken(error) from None  # it carries the request's headers, and with them the key
        except (aiohttp.ClientError, TimeoutError, OSError, zlib.error) as error:
            raise faults.broken(error) from error

    async def _send(self, call: Call) -> tuple[int, bytes]:
        """The status and content of a success."""
        found = await self.read(call)
        if found.status not in _SUCCESS:
            retry_after = found.headers.get("Retry-After")
            raise faults.refusal(found.status, found.content or b"", retry_after=retry_after, now=self._clock.now())
        if found.content is None:
            raise faults.unreadable(found.status, f"an answer of more than {call.most_bytes} bytes")
        return found.status, found.content

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=MOST_IN_FLIGHT + URGENT_IN_FLIGHT, keepalive_timeout=KEEP_IDLE_SECONDS
                ),
                timeout=self._timeout,
                # Unpacked by us, within bounds, so only what we can unpack is asked for.
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={
                    "Authorization": f"Bearer {self._api_key.get_secret_value()}",
                    "User-Agent": f"corral/{__version__}",
                    "Accept": "application/json",
                    "Accept-Encoding": "gzip, deflate",
                    "Content-Type": "application/json",
                },
            )
            # aiohttp repeats a GET by itself when a kept connection breaks; that call would bypass the rate limiter.
            self._session._retry_connection = False  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return self._session


@lru_cache(maxsize=1)  # many responses have the same second
def _date(header: str | None) -> datetime | None:
    try:
        found = None if header is None else parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return found if found is None or found.tzinfo is not None else None


async def _content(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """The body, unpacked; None when it is longer than *most*, and then the connection is closed."""
    packed = response.headers.get("Content-Encoding", "identity").lower() not in {"", "identity"}
    if not packed and (response.content_length or 0) > most:
        response.close()
        return None
    unpack = zlib.decompressobj(_ANY_ZLIB) if packed else None
    content = bytearray()
    # No answer that is read in whole is packed to more than its unpacked limit, so one number bounds both.
    received = 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        received += len(chunk)
        content += chunk if unpack is None else unpack.decompress(chunk, most + 1 - len(content))
        if len(content) > most or received > most:
            response.close()
            return None
    return bytes(content)


def _read(status: int, content: bytes, answer: type[Answer]) -> Answer:
    """The content as *answer*; `wire.Nothing` may be empty."""
    if issubclass(answer, wire.Nothing):
        return answer()
    try:
        return msgspec.json.decode(content, type=answer)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        # The class is enough; the message of the decoder is dropped.
        raise faults.unreadable(status, f"an answer that cannot be read ({type(error).__name__})") from None
