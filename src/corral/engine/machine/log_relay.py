"""
Relays the logs of machines from the provider to users, within bounds.

Each reading has one connection to the provider and is read as fast as its user takes it: what is held of it is a few
tens of kilobytes, however fast the log grows. A reading ends by itself after a time and a size, when its user's key is
revoked, and when the process stops; its last line then says so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from corral.base.clock import Clock
from corral.base.metrics import Metrics
from corral.cache.cache import Cache
from corral.cloud.port import Cloud
from corral.domain.errors import CloudError, GoalRefusedError, RateLimitError, StoreError
from corral.domain.machine.log_text import LogText
from corral.engine.queries.instances import InstanceQueries
from corral.outbound.provider_logs import LogStream, LogUnavailableError, ProviderLogs

Result = TypeVar("Result")

MOST_READINGS: Final = 100
"""Of one process at the same time. Fewer refuses teams that watch their machines; more, and readers that do not read
hold more than some 20 MB together."""
FOLLOW_SECONDS: Final = 1800.0
"""The longest that a log is followed. Shorter interrupts users; longer keeps places for clients that were forgotten."""
MOST_FOLLOW_BYTES: Final = 64 * 2**20
READ_SECONDS: Final = 60.0
"""The longest that a log is read which is not followed."""
MOST_READ_BYTES: Final = 8 * 2**20
"""Ten thousand lines of ordinary length are a megabyte or two."""
SILENT_SECONDS: Final = 10.0
"""How long a stream that is not followed may send nothing: it should have ended."""
CHECK_SECONDS: Final = 5.0
"""How often time, silence and the caller's key are checked."""
BURST_BYTES: Final = 2 * 2**20
"""What is sent at full speed: the lines that are there already."""
BYTES_A_SECOND: Final = 128 * 1024
"""Of one reading after the burst: some thousand lines a second, more than a person reads. Larger, and a hundred endless
logs take the CPU of the process."""
ALL_BYTES_A_SECOND: Final = 6 * 2**20
"""Of all readings together, evenly spaced after a burst. Larger, and a hundred users that open an endless log delay
every other request; smaller, and they wait for lines that are there."""
NOMINAL_BYTES: Final = 16 * 1024
"""Paid for before a read, whose size is not known yet; what is more is paid for afterwards."""
ADDRESS_SECONDS: Final = 30.0
"""How long the addresses of the logs of a machine are reused. Longer shows a machine that was replaced; shorter costs a
provider call more for each reading."""
ADDRESSES_KEPT: Final = 1000
RETRY_SECONDS: Final = 10.0


class LogSource(StrEnum):
    """Which log: `system` has the pull of the image and the start, `instance` what the container prints."""

    SYSTEM = "system"
    INSTANCE = "instance"


class _Addresses(NamedTuple):
    """Where the logs of one machine are; the addresses may contain tokens."""

    system: str | None
    instance: str | None

    def __repr__(self) -> str:
        return "_Addresses(...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    seconds: float
    most_bytes: int
    silent_seconds: float


_FOLLOWING: Final = _Bounds(seconds=FOLLOW_SECONDS, most_bytes=MOST_FOLLOW_BYTES, silent_seconds=math.inf)
_READING: Final = _Bounds(seconds=READ_SECONDS, most_bytes=MOST_READ_BYTES, silent_seconds=SILENT_SECONDS)
IsAllowed = Callable[[], Awaitable[bool]]


class _Pace:
    """A rate with a burst: says when there is room for more."""

    def __init__(self, bytes_a_second: int) -> None:
        self._rate = bytes_a_second
        self._paid_until = -math.inf

    def pay(self, size: int, now: float) -> None:
        """*size* bytes are, or will be, read."""
        self._paid_until = max(self._paid_until, now - BURST_BYTES / self._rate) + size / self._rate

    def pause(self, now: float) -> float:
        """The seconds until there is room; none if this is not positive."""
        return self._paid_until - now


class LogReading:
    """One log that is being read. Call `close` in any case."""

    def __init__(self, relay: LogRelay, stream: LogStream, bounds: _Bounds, is_allowed: IsAllowed | None) -> None:
        self._relay = relay
        self._clock = relay.clock
        self._stream = stream
        self._bounds = bounds
        self._is_allowed = is_allowed
        self._text = LogText()
        self._bytes = 0
        self._began = self._clock.monotonic()
        self._pace = _Pace(BYTES_A_SECOND)
        self._waiting_since: float | None = None
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ended = False
        self._watching = asyncio.create_task(self._watch())

    async def next(self) -> bytes:
        """The next lines, as soon as there are some; empty at the end."""
        while not self._ended:
            lines = await self._more()
            if lines:
                return lines
        return b""

    def end(self, because: str) -> None:
        """End the reading; its last line says *because*."""
        if not self._over.done():
            self._over.set_result(because)

    def close(self) -> None:
        """Release the connection and the place, at once."""
        self._ended = True
        self._watching.cancel()
        self._stream.close()
        self._relay.leave(self)

    async def _more(self) -> bytes:
        now = self._clock.monotonic()
        pause = max(self._pace.pause(now), self._relay.pace.pause(now))
        self._relay.pace.pay(NOMINAL_BYTES, now)  # reserved before the wait, so that waiting readings take turns
        if pause > 0:
            await self._unless_over(self._clock.sleep(pause))
        self._waiting_since = self._clock.monotonic()
        try:
            data = await self._unless_over(self._stream.read())
        except LogUnavailableError:
            return self._last("the provider cut the log off")
        finally:
            self._waiting_since = None
        if self._over.done():
            return self._last(self._over.result())
        if not data:
            self._ended = True
            return self._text.end()
        self._bytes += len(data)
        now = self._clock.monotonic()
        self._pace.pay(len(data), now)
        self._relay.pace.pay(max(0, len(data) - NOMINAL_BYTES), now)
        if self._bytes > self._bounds.most_bytes:
            self.end(f"at most {self._bounds.most_bytes // 2**20} MB are read at once; ask again to continue")
        return self._text.add(data)

    def _last(self, because: str) -> bytes:
        self._ended = True
        return self._text.end() + f"[corral: {because}]\n".encode()

    async def _unless_over(self, step: Coroutine[Any, Any, Result]) -> Result | None:
        """The result of *step*; None when the reading is over before."""
        task = asyncio.ensure_future(step)
        either: set[asyncio.Future[Any]] = {task, self._over}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()

    async def _watch(self) -> None:
        """End the reading when its time is over, its stream is silent, or its caller is no longer allowed to read."""
        while not self._over.done():
            await self._clock.sleep(CHECK_SECONDS)
            now, bounds = self._clock.monotonic(), self._bounds
            silent_seconds = 0.0 if self._waiting_since is None else now - self._waiting_since
            if now - self._began >= bounds.seconds:
                self.end(f"a log is read for at most {bounds.seconds / 60:.0f} minutes; ask again to continue")
            elif silent_seconds >= bounds.silent_seconds:
                self.end("the provider stopped sending")
            elif self._is_allowed is not None and not await _holds(self._is_allowed):
                self.end("the access of the caller ended, or cannot be checked")


class LogRelay:
    """Reads the logs of machines for users; one for the process."""

    def __init__(
        self, cloud: Cloud, queries: InstanceQueries, logs: ProviderLogs, *, clock: Clock, metrics: Metrics
    ) -> None:
        self._cloud = cloud
        self._metrics = metrics
        self._queries = queries
        self._logs = logs
        self.clock = clock
        self.pace = _Pace(ALL_BYTES_A_SECOND)
        self.readings: set[LogReading] = set()
        self._opening = 0
        self._stopped = False
        self._addresses: Cache[_Addresses] = Cache(
            ttl_seconds=ADDRESS_SECONDS, most_entries=ADDRESSES_KEPT, clock=clock
        )

    async def open(
        self, given_id: str, source: LogSource, *, tail: int, follow: bool, is_allowed: IsAllowed | None = None
    ) -> LogReading:
        """
        Begin to read a log; *is_allowed* is asked now and then, and when it returns False the reading ends.

        Raises NotFoundError, GoalRefusedError NO_LOGS_YET, RateLimitError TOO_MANY_FOLLOWERS, CloudError
        LOGS_UNAVAILABLE, and what the provider's call raises.
        """
        if len(self.readings) + self._opening >= MOST_READINGS:
            raise RateLimitError(
                f"{MOST_READINGS} logs are being read already; end one, or ask again later",
                code="TOO_MANY_FOLLOWERS",
                retry_after_seconds=RETRY_SECONDS,
            )
        self._opening += 1
        try:
            stream = await self._stream(given_id, source, tail=tail, follow=follow)
            reading = LogReading(self, stream, _FOLLOWING if follow else _READING, is_allowed)
            self.readings.add(reading)
            self._metrics.log_readings.inc()
        finally:
            self._opening -= 1
        if self._stopped:
            reading.end(STOPPING)
        return reading

    def stop(self) -> None:
        """End every reading, now and from now on."""
        self._stopped = True
        for reading in self.readings:
            reading.end(STOPPING)

    def leave(self, reading: LogReading) -> None:
        """Release the place of *reading*."""
        if reading in self.readings:
            self.readings.remove(reading)
            self._metrics.log_readings.dec()

    async def _stream(self, given_id: str, source: LogSource, *, tail: int, follow: bool) -> LogStream:
        provider_id = (await self._queries.instance(given_id)).instance.provider_id
        if provider_id is None:
            raise _none_yet("the provider has no machine for this instance yet")

        async def look_up() -> _Addresses:
            access = await self._cloud.machine_access(provider_id)
            if access is None:
                raise _none_yet("the provider has no machine for this instance")
            return _Addresses(system=access.system_log_address, instance=access.instance_log_address)

        addresses = await self._addresses.get(provider_id, look_up)
        address = addresses.system if source is LogSource.SYSTEM else addresses.instance
        try:
            if address is None:
                raise _none_yet(f"the machine has no {source.value} log yet")
            return await self._logs.stream(address, tail=tail, follow=follow)
        except LogUnavailableError as error:
            self._addresses.drop(provider_id)
            if error.is_missing:
                raise _none_yet(f"the machine has no {source.value} log yet") from None
            raise CloudError(f"the log cannot be read: {error.because}", code="LOGS_UNAVAILABLE") from None
        except GoalRefusedError:
            self._addresses.drop(provider_id)
            raise


STOPPING: Final = "this Corral is stopping; ask again to continue"


async def _holds(is_allowed: IsAllowed) -> bool:
    try:
        return await is_allowed()
    except StoreError:
        return False


def _none_yet(message: str) -> GoalRefusedError:
    return GoalRefusedError(message, code="NO_LOGS_YET")
