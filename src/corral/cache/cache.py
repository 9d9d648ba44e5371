"""
One cache: values that expire, in bounded number, each loaded once however many ask for it at the same time.

Three promises that are easy to break:
a failed load is told to everybody who waited for it and then forgotten;
who stops waiting does not stop the load for the others;
a value whose key was dropped while it was being loaded is given to those who waited, and not kept, because it may have
been read before the change that the drop tells of.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from corral.base.clock import Clock

MOST_KEYS_SHOWN = 100
"""Statistics name at most this many keys; more is a dump and not a look."""

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """One cache in numbers, counted since the process started."""

    size: int
    """Entries held; an expired one counts until something meets it."""
    hits: int
    misses: int
    """Questions that had to wait for a load, their own or one already under way."""
    sets: int
    deletes: int
    """Entries dropped or cleared."""
    evictions: int
    """Entries that went by themselves: pushed out by newer ones, or past their time."""
    keys: tuple[str, ...]
    """The last used first, at most 100."""

    @property
    def hit_ratio(self) -> float:
        """The share of questions answered at once; 0 before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


@dataclass(frozen=True, slots=True)
class _Entry(Generic[V]):
    value: V
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit(Generic[V]):
    """A bound on the sizes of all values of a cache together."""

    most: int
    size_of: Callable[[V], int]


class Cache(Generic[V]):
    """
    Values by key, each for *ttl_seconds*, at most *most_entries*; the least recently used goes first.

    With *size_limit*, entries also go when their sizes together exceed it.
    """

    def __init__(
        self, *, ttl_seconds: float, most_entries: int, clock: Clock, size_limit: SizeLimit[V] | None = None
    ) -> None:
        if most_entries < 1:
            raise ValueError(f"a cache holds at least one entry, not {most_entries}")
        self.ttl_seconds = ttl_seconds
        self._most_entries = most_entries
        self._size_limit = size_limit
        self._size = 0
        self._clock = clock
        self._entries: OrderedDict[str, _Entry[V]] = OrderedDict()
        self._flights: dict[str, asyncio.Task[V]] = {}
        self._disowned: set[asyncio.Task[V]] = set()
        self._hurried: dict[asyncio.Task[V], float] = {}
        self._hits = self._misses = self._sets = self._deletes = self._evictions = 0

    async def get(self, key: str, load: Callable[[], Awaitable[V]], *, since: Callable[[V], float] | None = None) -> V:
        """
        The value of *key*, loaded by *load* unless it is held; raises what the load raises.

        Its time counts from the end of the load, or from the (monotonic) instant *since* tells of the value: one made
        from other cached values is no younger than the oldest of them.
        """
        entry = self._fresh(key)
        if entry is not None:
            self._hits += 1
            self._entries.move_to_end(key)
            return entry.value
        self._misses += 1
        flight = self._flights.get(key)
        if flight is None:
            flight = asyncio.create_task(self._load_once(key, load, since))
            flight.add_done_callback(_note_failure)
            self._flights[key] = flight
        # Not `await flight`: a waiter that is cancelled would take the load, and so all other waiters, with it.
        await asyncio.wait([flight])
        return flight.result()

    def peek(self, key: str) -> V | None:
        """What is held of *key*, if anything; it counts as no question."""
        entry = self._fresh(key)
        return None if entry is None else entry.value

    def count(self, *, hit: bool) -> None:
        """Count a question that was answered with a `peek` (*hit*) or had to be answered otherwise."""
        if hit:
            self._hits += 1
        else:
            self._misses += 1

    def put(self, key: str, value: V) -> None:
        """Hold *value*, whatever is being loaded for *key*."""
        self._disown(key)
        self._store(key, value, self._clock.monotonic())

    def drop(self, key: str) -> bool:
        """Forget *key*, also what is being loaded for it; answers whether it was held and still good."""
        self._disown(key)
        held = self._fresh(key) is not None
        if held:
            self._remove(key)
            self._deletes += 1
        return held

    def clear(self) -> int:
        """Forget everything, also what is being loaded; answers how many entries there were."""
        for key in list(self._flights):
            self._disown(key)
        removed = len(self._entries)
        self._entries.clear()
        self._size = 0
        self._deletes += removed
        return removed

    def expire_within(self, seconds: float) -> None:
        """
        Let nothing that is held now, or being loaded, be given out for longer than *seconds* from now on.

        For answers made from so many things that one of them changes all the time: dropped at every change they would
        never be held at all.
        """
        limit = self._clock.monotonic() + seconds
        for key, entry in self._entries.items():
            if entry.expires_at > limit:
                self._entries[key] = _Entry(entry.value, limit)
        for flight in self._flights.values():
            self._hurried.setdefault(flight, limit)

    def cleanup(self) -> int:
        """Forget what has expired; answers how many entries that were."""
        now = self._clock.monotonic()
        expired = [key for key, entry in self._entries.items() if entry.expires_at <= now]
        for key in expired:
            self._evict(key)
        return len(expired)

    def stats(self) -> CacheStats:
        """This cache in numbers."""
        shown = [key for key, _ in zip(reversed(self._entries), range(MOST_KEYS_SHOWN), strict=False)]
        return CacheStats(
            size=len(self._entries),
            hits=self._hits,
            misses=self._misses,
            sets=self._sets,
            deletes=self._deletes,
            evictions=self._evictions,
            keys=tuple(shown),
        )

    async def _load_once(self, key: str, load: Callable[[], Awaitable[V]], since: Callable[[V], float] | None) -> V:
        flight = cast("asyncio.Task[V]", asyncio.current_task())
        try:
            value = await load()
            if self._flights.get(key) is flight:
                made_at = self._clock.monotonic() if since is None else since(value)
                self._store(key, value, made_at, until=self._hurried.get(flight))
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            self._hurried.pop(flight, None)
        return value

    def _disown(self, key: str) -> None:
        """Let a load under way end for those who wait, but not be kept; whoever asks from here on loads anew."""
        flight = self._flights.pop(key, None)
        if flight is not None:
            self._disowned.add(flight)  # the loop itself holds tasks only weakly
            flight.add_done_callback(self._disowned.discard)

    def _fresh(self, key: str) -> _Entry[V] | None:
        entry = self._entries.get(key)
        if entry is not None and entry.expires_at <= self._clock.monotonic():
            self._evict(key)
            return None
        return entry

    def _store(self, key: str, value: V, since: float, *, until: float | None = None) -> None:
        expires_at = min(since + self.ttl_seconds, float("inf") if until is None else until)
        if expires_at <= self._clock.monotonic():
            return
        if key in self._entries:
            self._remove(key)
        self._entries[key] = _Entry(value, expires_at)
        self._size += self._size_of(value)
        self._sets += 1
        while len(self._entries) > self._most_entries or self._is_too_large():
            self._evict(next(iter(self._entries)))

    def _is_too_large(self) -> bool:
        return self._size_limit is not None and self._size > self._size_limit.most

    def _size_of(self, value: V) -> int:
        return 0 if self._size_limit is None else self._size_limit.size_of(value)

    def _evict(self, key: str) -> None:
        self._remove(key)
        self._evictions += 1

    def _remove(self, key: str) -> None:
        self._size -= self._size_of(self._entries.pop(key).value)


def _note_failure(flight: asyncio.Task[V]) -> None:
    """Look at the error of a load nobody waits for any more, so that the loop does not complain about it."""
    if not flight.cancelled():
        flight.exception()
