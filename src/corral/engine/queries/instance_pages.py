"""
Pages of instances as JSON, read and encoded again only where an instance changed.

A page costs one query for the generations of its instances. Most of the cost is reading and encoding the instances
themselves, so their JSON is kept by id and generation; the operation of an instance never changes without a new
generation. A second bounds what depends on the clock, such as `stale`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from corral.base.clock import Clock
from corral.cache.cache import Cache, SizeLimit
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import InstanceWithOperation
from corral.engine.ids import is_id, no_such_instance
from corral.engine.queries.instances import InstanceDescriber
from corral.store.session.database import Connection, Database
from corral.store.tables import instances, operations

KEPT_SECONDS: Final = 1.0
MOST_INSTANCES: Final = 10_000
MOST_BYTES: Final = 16 * 2**20
"""Some 8,000 instances. Fewer, and a caller that reads a whole large fleet page by page encodes all of it each time."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    generation: int
    json: msgspec.Raw


class InstancePage(msgspec.Struct):
    """One page, newest first; its JSON is that of `InstanceList`."""

    instances: list[msgspec.Raw]
    total: int
    limit: int
    offset: int


class InstancePages:
    """Reads pages; never calls the provider."""

    def __init__(self, database: Database, describer: InstanceDescriber, clock: Clock) -> None:
        self._database = database
        self._describer = describer
        self._encoded: Cache[_Encoded] = Cache(
            ttl_seconds=KEPT_SECONDS,
            most_entries=MOST_INSTANCES,
            size_limit=SizeLimit(most=MOST_BYTES, size_of=lambda encoded: len(memoryview(encoded.json))),
            clock=clock,
        )

    async def page(
        self,
        *,
        phases: Sequence[Phase] | None,
        name: str | None,
        region: str | None,
        limit: int,
        offset: int,
        after: str | None = None,
    ) -> InstancePage:
        """
        One page of the instances that pass the filters, and their total.

        With *after* it begins after the instance with this id, ours or the provider's, which costs the same anywhere in
        a long list; raises NotFoundError when there is none.
        """
        async with self._database.connection() as connection:
            if after is not None:
                last = await instances.load(connection, after) if is_id(after) else None
                if last is None:
                    raise no_such_instance(after)
                after = last.id
            generations, total = await instances.page(
                connection, phases=phases, name=name, region=region, limit=limit, offset=offset, after=after
            )
            shown = {each: self._kept(each, generation) for each, generation in generations.items()}
            missing = [each for each, json in shown.items() if json is None]
            if missing:
                shown |= await self._load(connection, missing)
        found = [json for json in shown.values() if json is not None]
        return InstancePage(instances=found, total=total, limit=limit, offset=offset)

    def _kept(self, instance_id: InstanceId, generation: int) -> msgspec.Raw | None:
        kept = self._encoded.peek(instance_id)
        return kept.json if kept is not None and kept.generation == generation else None

    async def _load(self, connection: Connection, ids: Sequence[InstanceId]) -> dict[InstanceId, msgspec.Raw]:
        """Read and encode the instances with *ids*; each may be later than the page's query."""
        found = await instances.by_ids(connection, ids, [])
        by_id = await operations.of_many(connection, [instance.operation_id for instance in found.values()])
        loaded = {}
        for instance in found.values():
            known = InstanceWithOperation(instance=instance, operation=by_id.get(instance.operation_id))
            loaded[instance.id] = msgspec.Raw(msgspec.json.encode(await self._describer.details(known)))
            self._encoded.put(instance.id, _Encoded(instance.generation, loaded[instance.id]))
        return loaded
