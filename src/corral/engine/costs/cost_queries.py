"""Reads costs; equal questions within a second are answered once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

import msgspec

from corral.base.clock import Clock
from corral.cache.cache import Cache, SizeLimit
from corral.domain.costs.totals import Cost, CostGroup, CostScope, UnknownUsage
from corral.domain.instance import InstanceId
from corral.domain.requests.costs.period import CostRequest
from corral.store.session.database import Connection, Database
from corral.store.tables.costs import usage
from corral.store.tables.costs.totals import daily_totals, hourly_rate, leading_groups, total_cost
from corral.views.costs.costs import cost_details

CACHED_SECONDS: Final = 1.0
"""A dashboard and scripts may ask in the same second. Longer shows older numbers; shorter sums the same rows again."""
MOST_CACHED: Final = 64
MOST_CACHED_BYTES: Final = 32 * 1024 * 1024
"""Ten thousand groups with their days of a month take ten."""
MOST_INSTANCES: Final = 1000
EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Before any usage."""


class CostQueries:
    """Reads what usage cost."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._instances: Cache[tuple[Cost, Fraction]] = Cache(
            ttl_seconds=CACHED_SECONDS, most_entries=MOST_INSTANCES, clock=clock
        )
        self._summaries: Cache[bytes] = Cache(
            ttl_seconds=CACHED_SECONDS,
            most_entries=MOST_CACHED,
            clock=clock,
            size_limit=SizeLimit(most=MOST_CACHED_BYTES, size_of=len),
        )
        self._per_day = asyncio.Lock()

    async def summary(self, request: CostRequest) -> bytes:
        """
        What the requested period cost, by groups if requested, as JSON of `CostDetails`.

        Raises SpecInvalidError, StoreUnavailableError.
        """
        return await self._summaries.get(repr(request), lambda: self._sum(request))

    async def of_instance(self, instance_id: InstanceId) -> tuple[Cost, Fraction]:
        """What one instance cost so far, and what it costs an hour now, in micro-USD."""
        return await self._instances.get(instance_id, lambda: self._sum_instance(instance_id))

    async def _sum_instance(self, instance_id: InstanceId) -> tuple[Cost, Fraction]:
        now, scope = self._clock.now(), CostScope(instance_id=instance_id)
        async with self._database.connection() as connection:
            found = await total_cost(connection, since=EVER, until=now, now=now, scope=scope)
            rate = await hourly_rate(connection, instance_id)
        return found, rate

    async def _sum(self, request: CostRequest) -> bytes:
        now = self._clock.now()
        since, until = request.period(now)
        # One at a time with days: each may take a hundred megabytes until it is encoded.
        async with self._per_day if request.per_day else nullcontext(), self._database.connection() as connection:
            unknown = await usage.unknown(connection, since)
            shown = await _shown(connection, request, since=since, until=until, now=now)
            # In a thread, because there may be thousands of groups with their days.
            return await asyncio.to_thread(_encoded, shown, since, until, unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A period's cost, and the groups of it that are shown."""

    total: Cost
    groups: list[CostGroup]
    rest: CostGroup
    rest_groups: int


async def _shown(
    connection: Connection, request: CostRequest, *, since: datetime, until: datetime, now: datetime
) -> _Shown:
    if request.group_by is None:
        total = await total_cost(connection, since=since, until=until, now=now)
        return _Shown(total=total, groups=[], rest=CostGroup(key=None, cost=Cost()), rest_groups=0)
    if request.per_day:
        every = await daily_totals(connection, since=since, until=until, now=now, group_by=request.group_by)
        return await asyncio.to_thread(_cut, every, request.limit)
    leading = await leading_groups(
        connection, since=since, until=until, now=now, group_by=request.group_by, limit=request.limit
    )
    part = sum((group.cost for group in leading.groups), Cost())
    return _Shown(
        total=leading.total,
        groups=leading.groups,
        rest=CostGroup(key=None, cost=leading.total.without(part)),
        rest_groups=leading.count - len(leading.groups),
    )


def _encoded(shown: _Shown, since: datetime, until: datetime, unknown: UnknownUsage | None) -> bytes:
    details = cost_details(
        since, until, shown.total, shown.groups, rest=shown.rest, rest_groups=shown.rest_groups, unknown=unknown
    )
    return msgspec.json.encode(details)


def _cut(groups: list[CostGroup], limit: int) -> _Shown:
    """The *limit* most expensive of *groups*, and the others together."""
    ordered = sorted(
        groups, key=lambda group: (-group.cost.usd, -group.cost.high, group.key is not None, group.key or "")
    )
    return _Shown(
        total=sum((group.cost for group in groups), Cost()),
        groups=ordered[:limit],
        rest=_together(ordered[limit:]),
        rest_groups=len(ordered[limit:]),
    )


def _together(groups: list[CostGroup]) -> CostGroup:
    """All *groups* as one, with their days."""
    found = defaultdict[str, Cost](Cost)
    for group in groups:
        for day in group.days:
            found[day.key or ""] += day.cost
    days = tuple(CostGroup(key=day, cost=found[day]) for day in sorted(found))
    return CostGroup(key=None, cost=sum((group.cost for group in groups), Cost()), days=days)
