"""The metrics of the caches, read from their statistics when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from corral.base.metrics import MetricFamily, blank
from corral.cache.registry import CacheRegistry

FAMILIES: Final = (
    MetricFamily("corral_cache_entries", "gauge", "Values held, by cache.", ("cache",)),
    MetricFamily("corral_cache_hits_total", "counter", "Questions answered at once.", ("cache",)),
    MetricFamily("corral_cache_misses_total", "counter", "Questions that waited for a load.", ("cache",)),
    MetricFamily("corral_cache_evictions_total", "counter", "Values expired or pushed out.", ("cache",)),
)


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
