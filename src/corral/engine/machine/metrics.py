"""How busy one machine was, read from the provider within a share of the rate limit."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from corral.base.clock import Clock
from corral.cache.cache import Cache, SizeLimit
from corral.cloud.port import Cloud
from corral.domain.instance import Instance
from corral.domain.machine.utilization import Utilization, period
from corral.engine.queries.instances import InstanceQueries
from corral.views.utilization import instance_metrics

FRESH_SECONDS: Final = 30.0
"""How long an answer is reused: the provider measures every 15 s and is a minute late. Shorter costs calls and shows
nothing new; longer delays a plot."""
MOST_BYTES: Final = 8 * 2**20
"""Of all answers that are reused; one of a machine with eight GPUs has up to 250 kB."""
ANSWERS_KEPT: Final = 1000


class MetricQueries:
    """Reads measurements; one for the process."""

    def __init__(self, cloud: Cloud, queries: InstanceQueries, clock: Clock) -> None:
        self._cloud = cloud
        self._queries = queries
        self._clock = clock
        self._kept: Cache[bytes] = Cache(
            ttl_seconds=FRESH_SECONDS,
            most_entries=ANSWERS_KEPT,
            clock=clock,
            size_limit=SizeLimit(most=MOST_BYTES, size_of=len),
        )

    async def of_instance(self, given_id: str, minutes: int) -> bytes:
        """
        The measurements of the last *minutes* as JSON; none if there is no machine.

        Raises NotFoundError, and what the provider's call raises.
        """
        instance = (await self._queries.instance(given_id)).instance
        key = f"{instance.id} {instance.provider_id} {minutes}"
        return await self._kept.get(key, partial(self._read, instance, minutes))

    async def _read(self, instance: Instance, minutes: int) -> bytes:
        within = period(self._clock.now(), timedelta(minutes=minutes))
        found = None
        if instance.provider_id is not None:
            found = await self._cloud.utilization(instance.provider_id, within)
        return msgspec.json.encode(instance_metrics(instance.id, within, found or Utilization()))
