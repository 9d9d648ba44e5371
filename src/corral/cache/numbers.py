"""The caches in numbers, for Prometheus: read when asked, so that counting costs the caches nothing."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from corral.cache.book import CacheBook


class CacheCollector(Collector):
    """What one process's caches did; register it with the metrics' registry."""

    def __init__(self, book: CacheBook) -> None:
        self._book = book

    def collect(self) -> Iterable[Metric]:
        """Every number of every cache."""
        entries = GaugeMetricFamily("corral_cache_entries", "Values held, by cache.", labels=["cache"])
        hits = CounterMetricFamily("corral_cache_hits", "Questions answered at once.", labels=["cache"])
        misses = CounterMetricFamily("corral_cache_misses", "Questions that waited for a load.", labels=["cache"])
        evictions = CounterMetricFamily("corral_cache_evictions", "Values expired or pushed out.", labels=["cache"])
        for name, cache in self._book:
            stats = cache.stats()
            entries.add_metric([name.value], stats.size)
            hits.add_metric([name.value], stats.hits)
            misses.add_metric([name.value], stats.misses)
            evictions.add_metric([name.value], stats.evictions)
        return [entries, hits, misses, evictions]
