"""Which caches there are: their names, how long each holds a value, and how many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from corral.base.clock import Clock
from corral.base.settings import CacheSettings
from corral.cache.cache import Cache
from corral.domain.errors import NotFoundError


class CacheName(StrEnum):
    """The caches, by their public names."""

    INSTANCE_DETAILS = "instanceDetails"
    INSTANCE_STATES = "instanceStates"
    MERGED_LISTING = "mergedListing"
    PRODUCTS = "products"
    OPTIMAL_PRODUCTS = "optimalProducts"
    TEMPLATES = "templates"
    TEMPLATE_LISTS = "templateLists"
    CLUSTERS = "clusters"
    API_KEYS = "apiKeys"


INSTANCE_DETAILS_SECONDS = 30.0
INSTANCE_STATES_SECONDS = 60.0
TEMPLATES_SECONDS = 600.0
CLUSTERS_SECONDS = 600.0
"""A data centre opens or closes a few times a year; one that has just opened may be missed for this long."""
API_KEYS_SECONDS = 10.0
"""A made or revoked key is told to every process at once; this is for a process that cannot hear it."""

MOST_ENTRIES: Final[Mapping[CacheName, int]] = {
    CacheName.INSTANCE_DETAILS: 10_000,  # a few KiB each: tens of MiB when every instance of a large fleet is looked at
    CacheName.INSTANCE_STATES: 1,  # what the provider last listed, as a whole
    CacheName.MERGED_LISTING: 8,  # one for each of its four option sets, and some room; each may be megabytes
    CacheName.PRODUCTS: 256,  # some thirty clusters in two billing modes, a few hundred products each
    CacheName.OPTIMAL_PRODUCTS: 1000,
    CacheName.TEMPLATES: 1000,
    CacheName.TEMPLATE_LISTS: 2,  # the account's own and the official ones
    CacheName.CLUSTERS: 1,
    CacheName.API_KEYS: 1,  # all of them
}

_MADE_FROM: Final[Mapping[CacheName, tuple[CacheName, ...]]] = {
    CacheName.OPTIMAL_PRODUCTS: (CacheName.PRODUCTS, CacheName.CLUSTERS),
    CacheName.MERGED_LISTING: (CacheName.INSTANCE_DETAILS, CacheName.INSTANCE_STATES),
}
"""Which cache's answers are made from which others' and so are void with any of them."""

UNNOTICED_SECONDS: Final = 1.0
"""How long the merged listing may lag behind a change that another process, or the engine, made. A busy fleet changes
hundreds of times a second: dropped each time, the listing would be made anew for every question."""


class CacheRegistry:
    """
    Every cache of one process.

    What is dropped here is dropped in this process only; `engine/queries/cache_invalidation.py` tells the others.
    """

    def __init__(self, settings: CacheSettings, clock: Clock) -> None:
        seconds: Mapping[CacheName, float] = {
            CacheName.INSTANCE_DETAILS: INSTANCE_DETAILS_SECONDS,
            CacheName.INSTANCE_STATES: INSTANCE_STATES_SECONDS,
            CacheName.MERGED_LISTING: settings.listing_ttl_seconds,
            CacheName.PRODUCTS: settings.timeout_seconds,
            CacheName.OPTIMAL_PRODUCTS: settings.timeout_seconds,
            CacheName.TEMPLATES: TEMPLATES_SECONDS,
            CacheName.TEMPLATE_LISTS: TEMPLATES_SECONDS,
            CacheName.CLUSTERS: CLUSTERS_SECONDS,
            CacheName.API_KEYS: API_KEYS_SECONDS,
        }
        self._clock = clock
        self._cleanup_interval_seconds = settings.cleanup_interval_seconds
        self._caches: dict[CacheName, Cache[Any]] = {
            name: Cache(ttl_seconds=seconds[name], most_entries=MOST_ENTRIES[name], clock=clock) for name in CacheName
        }

    def __getitem__(self, name: CacheName) -> Cache[Any]:
        """The cache called *name*; its one owner says what kind of value it holds."""
        return self._caches[name]

    def __iter__(self) -> Iterator[tuple[CacheName, Cache[Any]]]:
        return iter(self._caches.items())

    def drop(self, name: CacheName, key: str) -> bool:
        """Forget one value, and every answer that may have been made from it; answers whether it was held."""
        held = self[name].drop(key)
        self._clear_made_from(name)
        return held

    def heard_of(self, name: CacheName, key: str | None) -> None:
        """
        Forget one value, or all, because a notice says that the thing changed.

        The merged listing alone is not dropped at once, but within a second. Whoever makes a change at a caller's wish
        calls `drop` or `clear` as well, so that the caller sees it in the next answer of that process.
        """
        if name is not CacheName.MERGED_LISTING:
            self[name].clear() if key is None else self[name].drop(key)
            self._clear_made_from(name, gently=True)
        elif key is None:
            self[name].expire_within(UNNOTICED_SECONDS)
        else:
            self[name].drop(key)

    def clear(self, name: CacheName | None = None) -> int:
        """Forget all values of one cache, and the answers made from them, or of all; answers how many it held."""
        if name is None:
            return sum(cache.clear() for cache in self._caches.values())
        removed = self[name].clear()
        self._clear_made_from(name)
        return removed

    async def clean_up_repeatedly(self) -> None:
        """Forget what has expired, at the interval the settings name, until cancelled."""
        while True:
            await self._clock.sleep(self._cleanup_interval_seconds)
            self.cleanup()

    def cleanup(self) -> int:
        """Forget what has expired, everywhere; answers how many values that were."""
        return sum(cache.cleanup() for cache in self._caches.values())

    def _clear_made_from(self, name: CacheName, *, gently: bool = False) -> None:
        for made, ingredients in _MADE_FROM.items():
            if name not in ingredients:
                continue
            if gently and made is CacheName.MERGED_LISTING:
                self[made].expire_within(UNNOTICED_SECONDS)
            else:
                self[made].clear()


def cache_name(word: str) -> CacheName:
    """The cache a person calls *word*; raises NotFoundError when there is none."""
    if word in set(CacheName):
        return CacheName(word)
    raise NotFoundError(f"there is no cache {word[:40]!r}; there are {', '.join(CacheName)}", code="CACHE_NOT_FOUND")
