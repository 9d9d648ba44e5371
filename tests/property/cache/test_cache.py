"""The cache against a model of it, through any sequence of questions, drops and passing time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.clock.clocks import SteppedClock

from corral.cache.cache import Cache

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
TTL_SECONDS = 30
MOST_ENTRIES = 3


class CacheMachine(RuleBasedStateMachine):
    """The model is a list of (key, value, expiry) in order of use, and six plain counters."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppedClock()
        self.cache: Cache[int] = Cache(ttl_seconds=TTL_SECONDS, most_entries=MOST_ENTRIES, clock=self.clock)
        self.runner = asyncio.Runner()
        self.held: list[tuple[str, int, float]] = []
        self.hits = self.misses = self.sets = self.deletes = self.evictions = 0
        self.made = 0

    def teardown(self) -> None:
        self.runner.close()

    @rule(key=KEYS, age=st.sampled_from([0, 0, 0, 20, 30, 40]))
    def ask(self, key: str, age: int) -> None:
        """A held value is given; another is loaded, and kept if it is young enough."""
        expected = self._held_value(key)
        value = self.runner.run(self.cache.get(key, self._load, since=lambda _: self.clock.monotonic() - age))
        if expected is not None:
            self.hits += 1
            self._keep(key, expected, self._expiry(key))
        else:
            expected = self.made
            self.misses += 1
            if age < TTL_SECONDS:
                self._add(key, expected, self.clock.monotonic() + TTL_SECONDS - age)

        assert value == expected

    @rule(seconds=st.sampled_from([0, 1, 25]))
    def expire_within(self, seconds: int) -> None:
        """Held values stay for that long at most, and never longer than before."""
        self.cache.expire_within(seconds)
        limit = self.clock.monotonic() + seconds
        self.held = [(key, value, min(expiry, limit)) for key, value, expiry in self.held]

    @rule(key=KEYS)
    def ask_in_vain(self, key: str) -> None:
        """A failed load leaves nothing behind."""
        expected = self._held_value(key)
        if expected is not None:
            self.hits += 1
            self._keep(key, expected, self._expiry(key))
            assert self.runner.run(self.cache.get(key, _fail)) == expected
        else:
            self.misses += 1
            with pytest.raises(LookupError):
                self.runner.run(self.cache.get(key, _fail))

    @rule(key=KEYS, value=st.integers(min_value=1000))
    def put(self, key: str, value: int) -> None:
        self.cache.put(key, value)
        self._add(key, value, self.clock.monotonic() + TTL_SECONDS)

    @rule(key=KEYS)
    def drop(self, key: str) -> None:
        was_held = self._held_value(key) is not None
        self.held = [entry for entry in self.held if entry[0] != key]
        self.deletes += was_held

        assert self.cache.drop(key) is was_held

    @rule()
    def clear(self) -> None:
        self.deletes += len(self.held)

        assert self.cache.clear() == len(self.held)
        self.held = []

    @rule()
    def clean_up(self) -> None:
        expired = [entry for entry in self.held if entry[2] <= self.clock.monotonic()]
        self.evictions += len(expired)
        self.held = [entry for entry in self.held if entry not in expired]

        assert self.cache.cleanup() == len(expired)

    @precondition(lambda self: self.held)
    @rule(seconds=st.sampled_from([1, 10, 29, 30, 31]))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def numbers_agree(self) -> None:
        stats = self.cache.stats()
        asked = self.hits + self.misses

        assert stats.keys == tuple(key for key, _, _ in reversed(self.held))
        assert len(self.held) == stats.size <= MOST_ENTRIES
        assert (self.hits, self.misses, self.sets) == (stats.hits, stats.misses, stats.sets)
        assert (self.deletes, self.evictions) == (stats.deletes, stats.evictions)
        assert stats.hit_ratio == (self.hits / asked if asked else 0)

    async def _load(self) -> int:
        self.made += 1
        return self.made

    def _held_value(self, key: str) -> int | None:
        """The model's answer; an expired entry is evicted by the look."""
        for entry in self.held:
            if entry[0] == key and entry[2] <= self.clock.monotonic():
                self.held.remove(entry)
                self.evictions += 1
                return None
        return next((value for held, value, _ in self.held if held == key), None)

    def _expiry(self, key: str) -> float:
        return next(expiry for held, _, expiry in self.held if held == key)

    def _keep(self, key: str, value: int, expiry: float) -> None:
        self.held = [*(entry for entry in self.held if entry[0] != key), (key, value, expiry)]

    def _add(self, key: str, value: int, expiry: float) -> None:
        self.sets += 1
        self._keep(key, value, expiry)
        if len(self.held) > MOST_ENTRIES:
            self.held = self.held[1:]
            self.evictions += 1


async def _fail() -> int:
    raise LookupError


TestCacheMachine = CacheMachine.TestCase
