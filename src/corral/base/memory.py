"""Free memory goes back to the system."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

from corral.base.clock import Clock

EVERY_SECONDS: Final = 30.0
"""Longer, and what a burst needed is kept for longer; shorter, and pages are returned that are needed again at once."""


async def return_free_memory(clock: Clock, forget: Callable[[], object]) -> None:
    """
    Return free pages to the system again and again, where the C library can; *forget* is called before.

    By itself it returns only what is free above everything in use, and little is after a burst.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await clock.sleep(EVERY_SECONDS)
        forget()
        await asyncio.to_thread(trim, 0)
