"""The calls of one verification: in a row, at the rate that is set, each answer kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corral.base.clock import Clock
from corral.cloud.exchange import Service
from corral.cloud.novita.raw import RawCalls
from corral.domain.verification.evidence import ProviderAnswer
from corral.domain.verification.json_values import number

TRIES: Final = 3
"""Of a read that is throttled."""
FIRST_PAUSE_SECONDS: Final = 20.0
LONGEST_PAUSE_SECONDS: Final = 60.0
"""After a throttled read: as Retry-After says within these, else the first, doubling. The limit is per minute: shorter,
and the read is throttled again; longer, and a person waits for nothing."""
_THROTTLED: Final = 429


class RecordedCalls:
    """Sends calls one after the other and keeps every answer."""

    def __init__(self, raw: RawCalls, clock: Clock, *, per_minute: int | None) -> None:
        self._raw = raw
        self.clock = clock
        self._pause = 0.0 if per_minute is None else 60.0 / per_minute
        self._next_at = clock.monotonic()
        self.answers: list[ProviderAnswer] = []

    async def get(
        self, path: str, query: Mapping[str, str] | None = None, *, service: Service = Service.INSTANCES
    ) -> ProviderAnswer:
        """Read *path*; a throttled read is repeated."""
        answer = await self._once(path, query, service=service)
        for turn in range(TRIES - 1):
            if answer.status != _THROTTLED:
                break
            await self.clock.sleep(_pause(answer, turn))
            answer = await self._once(path, query, service=service)
        return answer

    async def post(self, path: str, body: Mapping[str, object]) -> ProviderAnswer:
        """Send *body* to *path*; never repeated here."""
        await self._turn()
        return self._kept(await self._raw.post(path, body))

    async def _once(self, path: str, query: Mapping[str, str] | None, *, service: Service) -> ProviderAnswer:
        await self._turn()
        return self._kept(await self._raw.get(path, query, service=service))

    async def _turn(self) -> None:
        """Wait until the rate allows the next call."""
        now = self.clock.monotonic()
        if now < self._next_at:
            await self.clock.sleep(self._next_at - now)
        self._next_at = max(now, self._next_at) + self._pause

    def _kept(self, answer: ProviderAnswer) -> ProviderAnswer:
        self.answers.append(answer)
        return answer


def _pause(answer: ProviderAnswer, turn: int) -> float:
    asked = number(answer.headers.get("retry-after"))
    chosen = FIRST_PAUSE_SECONDS * 2**turn if asked is None else asked
    return min(max(chosen, 1.0), LONGEST_PAUSE_SECONDS)
