"""
One cache: values that expire, in bounded number, each loaded once however many ask for it at the same time.

Three guarantees that are easy to break:
a failed load raises in every waiter and is not kept;
cancelling a waiter does not cancel the load for the others;
a value whose key was dropped while it was loaded goes to the waiters and is not kept, because it may have been read
before the change that caused the drop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from corral.base.clock import Clock

MOST_KEYS_SHOWN = 100
"""Statistics name at most this many keys; more would be a dump of the cache."""

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """One cache in numbers, counted since the process started."""

    size: int
    """Entries held; an expired one counts until it is read or cleaned up."""
    hits: int
    misses: int
    """Reads that waited for a load, their own or one already under way."""
    sets: int
    deletes: int
    """Entries dropped or cleared."""
    evictions: int
    """Entries that expired or were pushed out by newer ones."""
    keys: tuple[str, ...]
    """The most recently used first, at most 100."""

    @property
    def hit_ratio(self) -> float:
        """The share of reads served without a load; 0 before the first."""
        reads = self.hits + self.misses
        return self.hits / reads if reads else 0.0


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
        unlimited: SizeLimit[V] = SizeLimit(most=0, size_of=lambda _value: 0)
        self._size_limit = size_limit or unlimited
        self._size = 0
        self._clock = clock
        self._entries: OrderedDict[str, _Entry[V]] = OrderedDict()
        self._loading: dict[str, asyncio.Task[V]] = {}
        self._detached: set[asyncio.Task[V]] = set()
        self._deadlines: dict[asyncio.Task[V], float] = {}
        self._hits = self._misses = self._sets = self._deletes = self._evictions = 0

    async def get(self, key: str, load: Callable[[], Awaitable[V]], *, since: Callable[[V], float] | None = None) -> V:
        """
        The value of *key*, loaded by *load* unless it is held; raises what the load raises.

        Its time counts from the end of the load, or from the monotonic time that *since* returns for the value: a value
        made from other cached values is as old as the oldest of them.
        """
        entry = self._fresh(key)
        if entry is not None:
            self._hits += 1
            self._entries.move_to_end(key)
            return entry.value
        self._misses += 1
        loading = self._loading.get(key)
        if loading is None:
            loading = asyncio.create_task(self._load_once(key, load, since))
            loading.add_done_callback(retrieve_error)
            self._loading[key] = loading
        # Not `await loading`: cancelling one waiter would cancel the load for all.
        await asyncio.wait([loading])
        return loading.result()

    def peek(self, key: str) -> V | None:
        """The value held for *key*, or None; counted neither as hit nor as miss."""
        entry = self._fresh(key)
        return None if entry is None else entry.value

    def count(self, *, hit: bool) -> None:
        """Count a read that `peek` served (*hit*) or did not."""
        if hit:
            self._hits += 1
        else:
            self._misses += 1

    def put(self, key: str, value: V) -> None:
        """Hold *value*; a load of *key* under way is not kept."""
        self._detach(key)
        self._store(key, value, self._clock.monotonic())

    def drop(self, key: str) -> bool:
        """Drop *key*, also a load under way; returns whether an unexpired value was held."""
        self._detach(key)
        held = self._fresh(key) is not None
        if held:
            self._remove(key)
            self._deletes += 1
        return held

    def clear(self) -> int:
        """Drop everything, also loads under way; returns how many entries were held."""
        for key in list(self._loading):
            self._detach(key)
        removed = len(self._entries)
        self._entries.clear()
        self._size = 0
        self._deletes += removed
        return removed

    def expire_within(self, seconds: float) -> None:
        """
        Let everything held now, or being loaded, expire after *seconds* at most.

        For values made from so much data that part of it changes constantly: dropped at every change, they would never
        be cached.
        """
        limit = self._clock.monotonic() + seconds
        for key, entry in self._entries.items():
            if entry.expires_at > limit:
                self._entries[key] = _Entry(entry.value, limit)
        for loading in self._loading.values():
            self._deadlines.setdefault(loading, limit)

    def cleanup(self) -> int:
        """Drop expired entries; returns how many."""
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
        loading = cast("asyncio.Task[V]", asyncio.current_task())
        try:
            value = await load()
            if self._loading.get(key) is loading:
                made_at = self._clock.monotonic() if since is None else since(value)
                self._store(key, value, made_at, until=self._deadlines.get(loading))
        finally:
            if self._loading.get(key) is loading:
                del self._loading[key]
            self._deadlines.pop(loading, None)
        return value

    def _detach(self, key: str) -> None:
        """Let a load under way finish for its waiters without keeping its value; later reads load again."""
        loading = self._loading.pop(key, None)
        if loading is not None:
            self._detached.add(loading)  # the event loop holds only weak references to tasks
            loading.add_done_callback(self._detached.discard)

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
        self._size += self._size_limit.size_of(value)
        self._sets += 1
        while len(self._entries) > self._most_entries or self._size > self._size_limit.most:
            self._evict(next(iter(self._entries)))

    def _evict(self, key: str) -> None:
        self._remove(key)
        self._evictions += 1

    def _remove(self, key: str) -> None:
        self._size -= self._size_limit.size_of(self._entries.pop(key).value)


def retrieve_error(loading: asyncio.Task[V]) -> None:
    """Retrieve the error of a task that may have no waiters, so that the event loop does not log it."""
    if not loading.cancelled():
        loading.exception()
