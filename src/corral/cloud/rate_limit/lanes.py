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


class ReadKind(Enum):
    """The kinds of reads, which take turns in their queue."""

    LOOKUP = auto()
    """Of one machine or one name; also what is read for users."""
    PAGE = auto()
    """One of many of a list, or a lookup of a machine that none of them showed."""
    SAMPLE = auto()
    """A measurement."""


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

    __slots__ = ("deadline", "future", "kind", "lane")

    def __init__(self, *, lane: Lane, deadline: float, kind: ReadKind) -> None:
        self.lane = lane
        self.kind = kind
        self.deadline = deadline
        self.future: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
