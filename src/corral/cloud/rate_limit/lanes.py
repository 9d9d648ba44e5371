"""The queues of requests that wait for a permit of the rate limiter."""

from __future__ import annotations

import asyncio
from enum import Enum, auto


class Lane(Enum):
    """The queues, in the order in which they are served."""

    URGENT = auto()
    """Stops and deletes."""
    CHANGE = auto()
    """Every other change."""
    LOOKUP = auto()
    """Lookups that running machines wait for."""
    READ = auto()


class Permit:
    """The right to send one request now."""

    __slots__ = ("granted_at", "is_beyond", "lane")

    def __init__(self, *, lane: Lane, granted_at: float, is_beyond: bool = False) -> None:
        """*is_beyond*: it was granted although the limit is used up."""
        self.lane = lane
        self.granted_at = granted_at
        self.is_beyond = is_beyond


class Waiter:
    """A request that waits."""

    __slots__ = ("deadline", "future", "is_page", "lane")

    def __init__(self, *, lane: Lane, is_page: bool, deadline: float) -> None:
        self.lane = lane
        self.is_page = is_page
        self.deadline = deadline
        self.future: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
