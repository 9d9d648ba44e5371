"""Memory that is free goes back to the system."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from support.clock.clocks import SteppedClock
from support.clock.waiting import until

from corral.base.memory import EVERY_SECONDS, return_free_memory

PIECES, SIZE = 50_000, 1_000


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_what_a_burst_needed_is_returned_although_later_pieces_are_in_use() -> None:
    """The C library alone keeps what is free below a piece that is in use; what can be forgotten is freed before."""
    clock = SteppedClock()
    pieces = [bytes(SIZE) for _ in range(PIECES)]
    last = bytes(SIZE)
    most = resident()
    returning = asyncio.create_task(return_free_memory(clock, pieces.clear))

    async def is_returned() -> bool:
        clock.advance(EVERY_SECONDS)
        return resident() < most - PIECES * SIZE // 2

    await until(is_returned, what="the memory")
    returning.cancel()

    assert len(last) == SIZE
