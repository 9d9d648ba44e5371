"""The caches of a process: their names, how long each holds a value and how many, and their metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from corral.base.clock import Clock
from corral.base.metrics import MetricFamily, blank
from corral.base.settings.settings import CacheSettings
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
    VOLUMES = "volumes"
    API_KEYS = "apiKeys"


def _limits(settings: CacheSettings) -> Mapping[CacheName, tuple[float, int]]:
    """For how many seconds each cache holds a value, and how many values at most."""
    return {
        CacheName.INSTANCE_DETAILS: (30, 10_000),  # a few KiB each: tens of MiB when a whole large fleet is read
        CacheName.INSTANCE_STATES: (60, 1),  # what the provider last listed, as a whole
        CacheName.MERGED_LISTING: (
            settings.listing_ttl_seconds,
            8,
        ),  # four option sets, and some room; may be megabytes
        CacheName.PRODUCTS: (settings.timeout_seconds, 256),  # thirty clusters in two modes, hundreds of products each
        CacheName.OPTIMAL_PRODUCTS: (settings.timeout_seconds, 1000),
        CacheName.TEMPLATES: (600, 1000),
        CacheName.TEMPLATE_LISTS: (600, 2),  # the account's own and the official ones
        CacheName.CLUSTERS: (600, 1),  # a data centre that has just opened may be missed for this long
        CacheName.VOLUMES: (settings.timeout_seconds, 1),
        CacheName.API_KEYS: (10, 1),  # all keys; bounds a process that misses the notification of a revoked one
    }


_MADE_FROM: Final[Mapping[CacheName, tuple[CacheName, ...]]] = {
    CacheName.OPTIMAL_PRODUCTS: (CacheName.PRODUCTS, CacheName.CLUSTERS),
    CacheName.MERGED_LISTING: (CacheName.INSTANCE_DETAILS, CacheName.INSTANCE_STATES),
}
"""Which caches hold values made from other caches, and are cleared with them."""

UNNOTICED_SECONDS: Final = 1.0
"""How long the merged listing may lag behind a change that another process, or the engine, made. A busy fleet changes
hundreds of times a second: dropped each time, the listing would be built again for every request."""

FAMILIES: Final = (
    MetricFamily("corral_cache_entries", "gauge", "Values held, by cache.", ("cache",)),
    MetricFamily("corral_cache_hits_total", "counter", "Questions answered at once.", ("cache",)),
    MetricFamily("corral_cache_misses_total", "counter", "Questions that waited for a load.", ("cache",)),
    MetricFamily("corral_cache_evictions_total", "counter", "Values expired or pushed out.", ("cache",)),
)


class CacheRegistry:
    """
    Every cache of one process.

    Drops here concern this process only; `engine/queries/cache_invalidation.py` notifies the others.
    """

    def __init__(self, settings: CacheSettings, clock: Clock) -> None:
        self._clock = clock
        self._cleanup_interval_seconds = settings.cleanup_interval_seconds
        self._caches: dict[CacheName, Cache[Any]] = {
            name: Cache(ttl_seconds=seconds, most_entries=most, clock=clock)
            for name, (seconds, most) in _limits(settings).items()
        }

    def __getitem__(self, name: CacheName) -> Cache[Any]:
        """The cache called *name*; its one user decides the type of its values."""
        return self._caches[name]

    def __iter__(self) -> Iterator[tuple[CacheName, Cache[Any]]]:
        return iter(self._caches.items())

    def drop(self, name: CacheName, key: str) -> bool:
        """Drop one value, and everything that may be made from it; returns whether it was held."""
        held = self[name].drop(key)
        self._clear_made_from(name)
        return held

    def heard_of(self, name: CacheName, key: str | None) -> None:
        """
        Drop one value, or all of a cache, after a notification of a change.

        The merged listing is not dropped at once, but expires within a second. Code that makes a change for a caller
        also calls `drop` or `clear`, so that the caller sees the change in the next answer of that process.
        """
        if name is not CacheName.MERGED_LISTING:
            self[name].clear() if key is None else self[name].drop(key)
            self._clear_made_from(name, delayed=True)
        elif key is None:
            self[name].expire_within(UNNOTICED_SECONDS)
        else:
            self[name].drop(key)

    def clear(self, name: CacheName | None = None) -> int:
        """Clear one cache and those made from it, or all; returns how many values were held."""
        if name is None:
            return sum(cache.clear() for cache in self._caches.values())
        removed = self[name].clear()
        self._clear_made_from(name)
        return removed

    async def clean_up_repeatedly(self) -> None:
        """Drop expired values at the interval from the settings, until cancelled."""
        while True:
            await self._clock.sleep(self._cleanup_interval_seconds)
            self.cleanup()

    def cleanup(self) -> int:
        """Drop expired values of every cache; returns how many."""
        return sum(cache.cleanup() for cache in self._caches.values())

    def _clear_made_from(self, name: CacheName, *, delayed: bool = False) -> None:
        for derived, sources in _MADE_FROM.items():
            if name not in sources:
                continue
            if delayed and derived is CacheName.MERGED_LISTING:
                self[derived].expire_within(UNNOTICED_SECONDS)
            else:
                self[derived].clear()


class CacheCollector(Collector):
    """The metrics of one process's caches; register it with the metrics' registry."""

    def __init__(self, caches: CacheRegistry) -> None:
        self._caches = caches

    def collect(self) -> Iterable[Metric]:
        """Every metric of every cache."""
        entries, hits, misses, evictions = found = [blank(family) for family in FAMILIES]
        for name, cache in self._caches:
            stats = cache.stats()
            entries.add_metric([name.value], stats.size)
            hits.add_metric([name.value], stats.hits)
            misses.add_metric([name.value], stats.misses)
            evictions.add_metric([name.value], stats.evictions)
        return found


def cache_name(word: str) -> CacheName:
    """The cache with the public name *word*; raises NotFoundError when there is none."""
    if word in set(CacheName):
        return CacheName(word)
    raise NotFoundError(f"there is no cache {word[:40]!r}; there are {', '.join(CacheName)}", code="CACHE_NOT_FOUND")
