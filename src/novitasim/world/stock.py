"""
How many GPUs are left, per product and cluster.

What is held is counted from the instances that hold it; what there is comes from a setting, from an override, and from
the weather, a fixed function of place and minute so that a run can be repeated. Never less than nothing is left.
"""

from __future__ import annotations

import hashlib
from collections import Counter

Place = tuple[str, str]  # (product id, cluster id)

_WEATHER_SHARE = {"calm": 0.0, "changing": 0.6, "stormy": 1.6}
_SPELL_SECONDS = 60  # how long one spell of weather lasts


class Stock:
    """The GPUs of every place."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._held: Counter[Place] = Counter()
        self.overrides: dict[Place, int] = {}

    def hold(self, place: Place, gpus: int) -> None:
        """Take *gpus* away (or give them back, if negative)."""
        self._held[place] += gpus

    def held(self, place: Place) -> int:
        """GPUs in use."""
        return self._held[place]

    def left(self, place: Place, now: float, *, base: int, weather: str) -> int:
        """GPUs that can still be had."""
        there = self.overrides.get(place)
        if there is None:
            there = round(base * (1.0 - self._gone(place, now, weather)))
        return max(0, there - self._held[place])

    def _gone(self, place: Place, now: float, weather: str) -> float:
        """The share of the stock that other customers have, between 0 and 1."""
        share = _WEATHER_SHARE[weather]
        if share == 0.0:
            return 0.0
        spell = int(now // _SPELL_SECONDS)
        digest = hashlib.blake2b(f"{self._seed}/{place}/{spell}".encode(), digest_size=4).digest()
        return min(1.0, share * int.from_bytes(digest, "big") / 2**32)
