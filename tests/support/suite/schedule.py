"""The order in which workers run the tests: the longest first, whole modules on one worker, short tests last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

LONG_SECONDS: Final = 600.0
"""A test that allows itself this much lasts minutes on a slow machine; there are a handful."""
SHARE_OF_LIMIT: Final = 0.15
"""How much of its limit such a test takes on an idle machine."""
TIER_SECONDS: Final = {"fault": 1.2, "e2e": 2.0, "docs": 1.0, "contract": 0.3, "property": 0.3, "engine": 0.2}
"""What a test of each tier takes, roughly, and which tier goes first; a wrong number only costs balance."""
SHORT_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Test:
    """A test before it runs: its id, and its time limit (0: the usual one)."""

    __test__ = False

    nodeid: str
    limit: float = 0.0

    @property
    def module(self) -> str:
        return self.nodeid.partition("::")[0]

    @property
    def tier(self) -> str:
        return self.nodeid.removeprefix("tests/").partition("/")[0]

    @property
    def is_long(self) -> bool:
        return self.limit >= LONG_SECONDS

    @property
    def seconds(self) -> float:
        return self.limit * SHARE_OF_LIMIT if self.is_long else TIER_SECONDS.get(self.tier, SHORT_SECONDS)


@dataclass
class _Share:
    """What one worker gets: *size* tests, because xdist cuts the list into equal parts."""

    size: int
    tests: list[int] = field(default_factory=list[int])
    seconds: float = 0.0

    def room(self) -> int:
        return self.size - len(self.tests)


def scheduled(tests: Sequence[Test], workers: int) -> list[int]:
    """
    The places of *tests* in the order to run them, one equal part for each worker after the other.

    A long test that starts last ends alone. A module that is cut in two starts its services twice. Short tests at the
    end of each part are what idle workers take over.
    """
    shares = [_Share((len(tests) + worker) // workers) for worker in range(workers)]  # as xdist divides
    places = range(len(tests))
    long = sorted((p for p in places if tests[p].is_long), key=lambda p: (-tests[p].limit, tests[p].nodeid))
    rest = sorted((p for p in places if not tests[p].is_long), key=lambda p: _turn(tests[p].tier))
    modules = [list(group) for _, group in groupby(rest, key=lambda p: tests[p].module)]
    left: list[int] = []
    for module in [*([p] for p in long), *modules]:
        fitting = [share for share in shares if share.room() >= len(module)]
        if fitting:
            _give(min(fitting, key=lambda share: share.seconds), module, tests)
        else:
            left += module
    for share in shares:
        room = share.room()
        _give(share, left[:room], tests)
        del left[:room]
    return [place for share in shares for place in share.tests]


def _turn(tier: str) -> int:
    order = list(TIER_SECONDS)
    return order.index(tier) if tier in order else len(order)


def _give(share: _Share, module: Iterable[int], tests: Sequence[Test]) -> None:
    for place in module:
        share.tests.append(place)
        share.seconds += tests[place].seconds
