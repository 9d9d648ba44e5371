"""How many messages may be in flight to each receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
from support.clock.clocks import SteppedClock

from corral.webhooks.slots import (
    BUSY_PAUSE,
    LARGEST_SHARE,
    LONGEST_RETURN,
    MOST_FAILING,
    MOST_NEW,
    NEW_SHARE,
    RECEIVERS_REMEMBERED,
    SEND_SLOTS,
    SLOW_PAUSE,
    SLOW_SECONDS,
    SendSlots,
    Slot,
    SlotsTakenError,
    Target,
)


def target(name: str, address: str | None = None) -> Target:
    return Target(receiver=f"{name}:443", address=address or name)


class Flight:
    """Slots, and messages in flight that never end by themselves."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.slots = SendSlots(self.clock)
        self.stack = AsyncExitStack()

    async def send(self, to: Target) -> Slot:
        slot = await self.stack.enter_async_context(self.slots.slot(to))
        slot.begin()
        return slot

    async def sent(self, targets: Sequence[Target]) -> int:
        """How many of *targets* get a slot; those that would wait are cut short."""
        count = 0
        for one in targets:
            try:
                await asyncio.wait_for(self.send(one), 0.01)
            except (SlotsTakenError, TimeoutError):
                continue
            count += 1
        return count

    async def exchange(self, to: Target, *, answered: bool = True, seconds: float = 0.0) -> None:
        """Send a message and have it answered, or not, after so long."""
        async with self.slots.slot(to) as slot:
            slot.begin()
            self.clock.advance(seconds)
            slot.end(answered=answered)

    async def prove(self, to: Target) -> None:
        for _ in range(LARGEST_SHARE):
            await self.exchange(to)


async def test_an_unknown_receiver_gets_a_few_slots() -> None:
    """Those just started count: sixty messages at once to a host that hangs take two slots."""
    assert await Flight().sent([target("hangs")] * 60) == NEW_SHARE


async def test_quick_answers_earn_more_slots_but_never_all() -> None:
    """Most installations have one receiver, which is to get its messages quickly."""
    flight = Flight()
    await flight.prove(target("good"))

    assert await flight.sent([target("good")] * 60) == LARGEST_SHARE
    assert await flight.sent([target("other")] * 60) == NEW_SHARE


async def test_receivers_that_hang_leave_slots_to_those_that_work() -> None:
    """However many there are; a receiver that works is served."""
    flight = Flight()
    await flight.prove(target("good"))

    assert await flight.sent([target(f"hangs{number}") for number in range(60)]) == MOST_NEW
    assert await flight.sent([target("good")] * 60) == LARGEST_SHARE <= SEND_SLOTS - MOST_NEW


async def test_receivers_that_did_not_answer_leave_slots_to_new_ones() -> None:
    """One slot each, and a few of all together."""
    flight = Flight()
    failing = [target(f"hangs{number}") for number in range(20)]
    for one in failing:
        await flight.exchange(one, answered=False)

    assert await flight.sent(failing * 2) == MOST_FAILING
    assert await flight.sent([target(f"new{number}") for number in range(20)]) == MOST_NEW - MOST_FAILING


async def test_one_address_with_many_names_is_one_target() -> None:
    """A wildcard name is no way around the limit."""
    flight = Flight()
    names = [target(f"tenant{number}", "192.0.2.1") for number in range(60)]
    for name in names:
        await flight.prove(name)

    assert await flight.sent(names) == LARGEST_SHARE


async def test_a_slow_receiver_loses_what_it_earned_and_can_earn_it_again() -> None:
    """While it is silent nothing more is sent to it; an answer that comes late leaves it the share of a new one."""
    flight = Flight()
    await flight.prove(target("good"))
    assert await flight.sent([target("good")] * 3) == 3
    flight.clock.advance(SLOW_SECONDS + 1)
    assert await flight.sent([target("good")] * 3) == 0
    await flight.stack.aclose()

    await flight.exchange(target("good"), seconds=SLOW_SECONDS + 1)
    assert await flight.sent([target("good")] * 60) == NEW_SHARE
    await flight.stack.aclose()

    await flight.prove(target("good"))
    assert await flight.sent([target("good")] * 60) == LARGEST_SHARE


async def test_a_message_for_a_quick_receiver_waits_for_a_slot() -> None:
    """Putting its job back would cost more than the wait."""
    flight = Flight()
    await flight.prove(target("good"))
    held = [await flight.send(target("good")) for _ in range(LARGEST_SHARE)]
    waiting = asyncio.create_task(flight.send(target("good")))
    await asyncio.wait({waiting}, timeout=0.01)
    assert not waiting.done()

    held[0].end(answered=True)
    await flight.stack.aclose()
    assert (await waiting).target == target("good")


async def test_a_wait_ends_after_a_second() -> None:
    """A message that waits holds one of the worker's seats."""
    flight = Flight()
    await flight.prove(target("good"))
    for _ in range(LARGEST_SHARE):
        (await flight.send(target("good"))).sending_since = None
    waiting = asyncio.create_task(flight.send(target("good")))
    await asyncio.wait({waiting}, timeout=0.01)
    flight.clock.advance(SLOW_SECONDS)

    with pytest.raises(SlotsTakenError) as taken:
        await waiting
    assert taken.value.pause == BUSY_PAUSE


async def test_messages_for_a_receiver_that_hangs_come_back_one_by_one() -> None:
    """Thousands that came back at the same instant would keep the queue from everything else."""
    flight = Flight()
    await flight.exchange(target("hangs"), answered=False)
    await flight.send(target("hangs"))
    pauses = []
    for _ in range(10_000):
        with pytest.raises(SlotsTakenError) as taken:
            await flight.send(target("hangs"))
        pauses.append(taken.value.pause)

    assert pauses[0] == SLOW_PAUSE
    assert (pauses[101] - pauses[1]).total_seconds() == pytest.approx(5)
    assert max(pauses) == LONGEST_RETURN


async def test_only_so_many_receivers_are_remembered() -> None:
    """Their names come from callers; what is in flight is never forgotten."""
    flight = Flight()
    await flight.send(target("hangs"))
    for number in range(RECEIVERS_REMEMBERED + 50):
        await flight.exchange(target(f"r{number}"))

    assert len(flight.slots._records) == RECEIVERS_REMEMBERED  # the memory is what the test is about
    assert await flight.sent([target("hangs")] * 3) == 1
