"""How far the pulls of images are, read from the system logs of machines."""

from __future__ import annotations

from functools import partial
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.domain.machine.image_pull import PullProgress, pull_progress
from corral.engine.machine.log_relay import LogRelay, LogSource

FRESH_SECONDS: Final = 2.0
"""How long an answer is reused: pages and commands that show one pull share a read of its log."""
PULLS_KEPT: Final = 1000
LINES: Final = 2000
"""Of the log: a pull of a hundred layers has some ten lines each."""
MOST_BYTES: Final = 512 * 1024


class ImagePulls:
    """Reads the progress of pulls; one for the process."""

    def __init__(self, relay: LogRelay, clock: Clock) -> None:
        self._relay = relay
        self._pulls: Cache[PullProgress] = Cache(ttl_seconds=FRESH_SECONDS, most_entries=PULLS_KEPT, clock=clock)

    async def progress(self, given_id: str) -> PullProgress:
        """How far the pull of one instance is; raises what `LogRelay.open` does."""
        return await self._pulls.get(given_id, partial(self._read, given_id))

    async def _read(self, given_id: str) -> PullProgress:
        reading = await self._relay.open(given_id, LogSource.SYSTEM, tail=LINES, follow=False)
        text = bytearray()
        try:
            while len(text) < MOST_BYTES and (lines := await reading.next()):
                text += lines
        finally:
            reading.close()
        return pull_progress(text.decode())
