"""
Which messages may be sent at the same time, so that receivers that hang delay no others.

Every message in flight takes one of `SEND_SLOTS`. How many of them one receiver (host and port) may take depends on how
it has answered: a new or slow one gets a few, each quick answer allows one more, a message without an answer leaves it
one. Receivers that are new or slow share a quarter of the slots, those that did not answer last time half of that; so
the rest stays free for receivers that work. One address never gets more than the largest share, under all its names.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from corral.base.clock import Clock, is_set_within

SEND_SLOTS: Final = 16
"""Messages one process sends at the same time; each holds a database connection. Fewer, and a handful of hanging
receivers delay the others; more, and a worker needs more connections than it is worth."""

NEW_SHARE: Final = 2
"""Messages to a receiver that is new or slow; more, and each unknown host that hangs takes more slots."""
LARGEST_SHARE: Final = 10
"""Messages to one receiver or address. More, and one that begins to hang leaves too few for the others."""
MOST_NEW: Final = SEND_SLOTS // 4
"""Messages to new and slow receivers together. More, and while callers crowd the API, when a worker runs a fifth of its
jobs, receivers that hang could hold all of them; fewer, and receivers that always take more than a second fall
behind."""
MOST_FAILING: Final = MOST_NEW // 2
"""Messages to receivers that did not answer; fewer than MOST_NEW, so that new receivers are not locked out."""

SLOW_SECONDS: Final = 1.0
"""A receiver that takes longer gets no larger share, and no message waits in memory for it. Shorter, and an ordinary
receiver far away counts as slow; longer, and others wait that long behind one that hangs."""

BUSY_PAUSE: Final = timedelta(seconds=0.5)
"""How soon a message is tried again that found no slot although its receiver is not slow."""
SLOW_PAUSE: Final = timedelta(seconds=5)
RETURN_SPACING_SECONDS: Final = 0.05
"""Messages that wait for a slow receiver come back at this spacing. All at once, and thousands of jobs for one receiver
that hangs would keep the queue busy with putting them back."""
LONGEST_RETURN: Final = timedelta(minutes=5)

RECEIVERS_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class Target:
    """Where a message goes."""

    receiver: str
    """Host and port."""
    address: str
    """The IP address that the host resolves to, or the host's name while that is unknown."""


class SlotsTakenError(Exception):
    """There is no slot for this message now; it is to be tried again after `pause`."""

    def __init__(self, pause: timedelta) -> None:
        super().__init__("no slot is free for its receiver")
        self.pause = pause


@dataclass(slots=True)
class _Record:
    """The state of a receiver."""

    share: int = NEW_SHARE
    returns_at: float = 0.0
    """When the last of its requeued messages is due."""


class Slot:
    """One slot, held for the messages of one instance, one after the other."""

    def __init__(self, slots: SendSlots, target: Target) -> None:
        self.target = target
        self._slots = slots
        self.sending_since: float | None = None

    def begin(self) -> None:
        """Note that a message is being sent."""
        self.sending_since = self._slots.now()

    def end(self, *, answered: bool) -> None:
        """Note whether its receiver responded, with any status."""
        began = self.sending_since
        self.sending_since = None
        quick = answered and began is not None and self._slots.now() - began <= SLOW_SECONDS
        self._slots.learn(self.target, answered=answered, quick=quick)


class SendSlots:
    """The slots of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.now = clock, clock.monotonic
        self._held: list[Slot] = []
        self._records: dict[str, _Record] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def slot(self, target: Target) -> AsyncGenerator[Slot]:
        """
        Hold a slot for *target*.

        Waits a second for one when its receiver is quick; raises SlotsTakenError when there is none.
        """
        give_up_at = self.now() + SLOW_SECONDS
        while not self._has_room(target):
            left = give_up_at - self.now()
            worth_waiting = self._is_proven(target) or self._has_its_share(target)
            if left <= 0 or self._is_slow(target) or not worth_waiting:
                raise SlotsTakenError(self._pause(target))
            self._changed.clear()
            await is_set_within(self._changed, left, self._clock)
        slot = Slot(self, target)
        self._held.append(slot)
        try:
            yield slot
        finally:
            self._held.remove(slot)
            self._changed.set()

    def learn(self, target: Target, *, answered: bool, quick: bool) -> None:
        """Adjust the share of a receiver by how it answered."""
        record = self._record(target)
        if quick:
            record.share = min(LARGEST_SHARE, max(record.share, NEW_SHARE) + 1)
            record.returns_at = 0.0
        else:
            record.share = NEW_SHARE if answered else 1
        self._changed.set()

    def _has_room(self, target: Target) -> bool:
        same_address = sum(slot.target.address == target.address for slot in self._held)
        if len(self._held) >= SEND_SLOTS or same_address >= LARGEST_SHARE or self._has_its_share(target):
            return False
        shares = [self._record(slot.target).share for slot in self._held]
        is_failing = self._record(target).share < NEW_SHARE
        if is_failing and sum(share < NEW_SHARE for share in shares) >= MOST_FAILING:
            return False
        return self._is_proven(target) or sum(share <= NEW_SHARE for share in shares) < MOST_NEW

    def _has_its_share(self, target: Target) -> bool:
        share = self._record(target).share
        if self._is_slow(target):
            share = min(share, NEW_SHARE)
        return sum(slot.target.receiver == target.receiver for slot in self._held) >= share

    def _is_proven(self, target: Target) -> bool:
        return self._record(target).share > NEW_SHARE

    def _is_slow(self, target: Target) -> bool:
        """Whether the receiver failed to answer last time, or has been silent for too long just now."""
        silent_since = self.now() - SLOW_SECONDS
        return self._record(target).share < NEW_SHARE or any(
            slot.sending_since is not None and slot.sending_since < silent_since
            for slot in self._held
            if slot.target.receiver == target.receiver
        )

    def _pause(self, target: Target) -> timedelta:
        """How long to wait before the next try, in line behind the other messages for a slow receiver."""
        if not self._is_slow(target):
            return BUSY_PAUSE
        record, now = self._record(target), self.now()
        record.returns_at = max(record.returns_at + RETURN_SPACING_SECONDS, now + SLOW_PAUSE.total_seconds())
        return min(timedelta(seconds=record.returns_at - now), LONGEST_RETURN)

    def _record(self, target: Target) -> _Record:
        record = self._records.get(target.receiver)
        if record is None:
            record = self._records[target.receiver] = _Record()
            if len(self._records) > RECEIVERS_REMEMBERED:
                with contextlib.suppress(StopIteration):
                    idle = {slot.target.receiver for slot in self._held} | {target.receiver}
                    del self._records[next(name for name in self._records if name not in idle)]
        return record
