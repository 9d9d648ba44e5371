"""
Pages of instances as JSON, read and encoded again only where an instance changed.

A page costs one query for the generations of its instances. Most of the cost is reading and encoding the instances
themselves, so their JSON is kept by id and generation; the operation of an instance never changes without a new
generation. A second bounds what depends on the clock, such as `stale`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from corral.base.clock import Clock
from corral.cache.cache import Cache, SizeLimit
from corral.domain.instance import InstanceId
from corral.domain.operation import InstanceWithOperation
from corral.engine.ids import is_id, no_such_instance
from corral.engine.queries.instances import InstanceDescriber
from corral.store.session.database import Connection, Database
from corral.store.tables import instances, operations
from corral.store.tables.fleet import instance_pages
from corral.store.tables.fleet.instance_pages import InstanceFilter
from corral.views.schemas import InstanceDetails
from corral.views.summary import InstanceSummary, summary_of

KEPT_SECONDS: Final = 1.0
MOST_INSTANCES: Final = 10_000
MOST_BYTES: Final = 16 * 2**20
"""Some 8,000 instances. Fewer, and a caller that reads a whole large fleet page by page encodes all of it each time."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    generation: int
    json: msgspec.Raw


class InstancePage(msgspec.Struct):
    """One page, newest first; its JSON is that of `InstanceList` or `InstanceSummaryList`."""

    instances: list[msgspec.Raw]
    total: int
    limit: int
    offset: int


class InstancePages:
    """Reads pages; never calls the provider."""

    def __init__(self, database: Database, describer: InstanceDescriber, clock: Clock) -> None:
        self._database = database
        self._describer = describer
        self._whole = _EncodedInstances(clock, lambda details: details)
        self._rows = _EncodedInstances(clock, summary_of)

    def forget_expired(self) -> int:
        """Forget the JSON of what was not read for a second; returns of how many instances."""
        return self._whole.forget_expired() + self._rows.forget_expired()

    async def page(
        self,
        wanted: InstanceFilter,
        *,
        limit: int,
        offset: int = 0,
        after: str | None = None,
        summaries: bool = False,
    ) -> InstancePage:
        """
        One page of the instances that pass the filter, and their total; with *summaries* as rows.

        With *after* it begins after the instance with this id, ours or the provider's, which costs the same anywhere in
        a long list; raises NotFoundError when there is none.
        """
        async with self._database.connection() as connection:
            if after is not None:
                last = await instances.load(connection, after) if is_id(after) else None
                if last is None:
                    raise no_such_instance(after)
                after = last.id
            generations, total = await instance_pages.page(connection, wanted, limit=limit, offset=offset, after=after)
            found = await self._shown(connection, generations, summaries=summaries)
        return InstancePage(instances=found, total=total, limit=limit, offset=offset)

    async def named(self, ids: Sequence[str], *, summaries: bool = False) -> InstancePage:
        """The instances with these ids of ours, newest first; unknown ones are left out."""
        async with self._database.connection() as connection:
            generations = await instance_pages.generations(connection, [InstanceId(each) for each in ids])
            found = await self._shown(connection, generations, summaries=summaries)
        return InstancePage(instances=found, total=len(found), limit=len(ids), offset=0)

    async def _shown(
        self, connection: Connection, generations: Mapping[InstanceId, int], *, summaries: bool
    ) -> list[msgspec.Raw]:
        encoded = self._rows if summaries else self._whole
        shown = {each: encoded.kept(each, generation) for each, generation in generations.items()}
        missing = [each for each, json in shown.items() if json is None]
        if missing:
            shown |= await self._load(connection, missing, encoded)
        return [json for json in shown.values() if json is not None]

    async def _load(
        self, connection: Connection, ids: Sequence[InstanceId], encoded: _EncodedInstances
    ) -> dict[InstanceId, msgspec.Raw]:
        """Read and encode the instances with *ids*; each may be later than the page's query."""
        found = await instances.by_ids(connection, ids, [])
        by_id = await operations.of_many(connection, [instance.operation_id for instance in found.values()])
        loaded = {}
        for instance in found.values():
            known = InstanceWithOperation(instance=instance, operation=by_id.get(instance.operation_id))
            details = await self._describer.details(known)
            loaded[instance.id] = encoded.keep(instance.id, instance.generation, details)
        return loaded


class _EncodedInstances:
    """The JSON of instances in one shape, by id and generation."""

    def __init__(self, clock: Clock, shape: Callable[[InstanceDetails], InstanceDetails | InstanceSummary]) -> None:
        self._shape = shape
        self._encoded: Cache[_Encoded] = Cache(
            ttl_seconds=KEPT_SECONDS,
            most_entries=MOST_INSTANCES,
            size_limit=SizeLimit(most=MOST_BYTES, size_of=lambda encoded: len(memoryview(encoded.json))),
            clock=clock,
        )

    def forget_expired(self) -> int:
        return self._encoded.cleanup()

    def kept(self, instance_id: InstanceId, generation: int) -> msgspec.Raw | None:
        kept = self._encoded.peek(instance_id)
        return kept.json if kept is not None and kept.generation == generation else None

    def keep(self, instance_id: InstanceId, generation: int, details: InstanceDetails) -> msgspec.Raw:
        json = msgspec.Raw(msgspec.json.encode(self._shape(details)))
        self._encoded.put(instance_id, _Encoded(generation, json))
        return json
