"""How many lookups are under way at once: those that hang do not keep others from being begun."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from corral.base.clock import Clock, is_set_within
from corral.domain.instance import InstanceId

HANGING_SECONDS: Final = 10.0
"""
After which a lookup no longer takes a slot, though it goes on: it has hung, or waits for the rate limit.

Shorter, and the queue for the rate limit becomes longer when it is used up; longer, and a few machines whose lookups
hang delay all others by as much.
"""
MOST_HANGING: Final = 16
"""Of one kind of lookups. Fewer, and so many hanging lookups delay all others; more, and other reads wait for them."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    task: asyncio.Task[None]
    began: float
    """By the monotonic clock."""


@dataclass
class LookupSlots:
    """The lookups under way, by their instances; `close` cancels them."""

    clock: Clock
    _under_way: dict[InstanceId, _Lookup] = field(default_factory=dict[InstanceId, _Lookup], init=False)

    def __contains__(self, instance_id: InstanceId) -> bool:
        """Whether the instance is being looked up."""
        return instance_id in self._under_way

    def free(self, most: int) -> int:
        """How many lookups may be begun, of *most* at once."""
        recently = self.clock.monotonic() - HANGING_SECONDS
        counted = sum(lookup.began > recently for lookup in self._under_way.values())
        return max(0, min(most - counted, most + MOST_HANGING - len(self._under_way)))

    def begin(self, instance_id: InstanceId, look_up: Coroutine[Any, Any, None]) -> None:
        """Begin a lookup of an instance that is not being looked up."""
        self._under_way[instance_id] = _Lookup(asyncio.create_task(look_up), self.clock.monotonic())

    async def ended_within(self, seconds: float) -> bool:
        """Wait until none is under way, at most for *seconds*; returns whether none is. Raises what a lookup raised."""
        ended = asyncio.Event()
        together = asyncio.gather(*(lookup.task for lookup in self._under_way.values()), return_exceptions=True)
        together.add_done_callback(lambda _: ended.set())
        await is_set_within(ended, seconds, self.clock)
        for instance_id in [each for each, lookup in self._under_way.items() if lookup.task.done()]:
            self._under_way.pop(instance_id).task.result()
        return not self._under_way

    def close(self) -> None:
        """Cancel those under way."""
        for lookup in self._under_way.values():
            lookup.task.cancel()
