"""Reads instances and operations, and shows instances as they are at an instant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.errors import NotFoundError
from corral.domain.operation import InstanceWithOperation, Operation
from corral.engine.ids import is_id, no_such_instance
from corral.engine.queries.estimates import Estimates
from corral.store.session.database import Connection, Database
from corral.store.tables import instances, operations
from corral.views.instance import AsOf, InstanceView
from corral.views.schemas import InstanceDetails

OUR_IDS = "inst_"


class InstanceQueries:
    """Reads records; never calls the provider."""

    def __init__(self, database: Database, caches: CacheRegistry) -> None:
        self._database = database
        self._details: Cache[InstanceWithOperation] = caches[CacheName.INSTANCE_DETAILS]

    async def instance(self, given_id: str) -> InstanceWithOperation:
        """One instance, by our id or the provider's; raises NotFoundError."""
        load = partial(self._load, given_id)
        # Changes drop an instance from the cache by our id, so it must not be cached under another.
        return await (self._details.get(given_id, load) if given_id.startswith(OUR_IDS) else load())

    async def operation(self, operation_id: str) -> Operation:
        """One operation; raises NotFoundError."""
        found = None
        if is_id(operation_id):
            async with self._database.connection() as connection:
                found = await operations.load(connection, operation_id)
        if found is None:
            raise NotFoundError(f"there is no operation {operation_id[:60]!r}", code="OPERATION_NOT_FOUND")
        return found

    async def operations_of(self, given_id: str) -> list[Operation]:
        """The operations of one instance, newest first; raises NotFoundError when there is no such instance."""
        known = await self.instance(given_id)
        async with self._database.connection() as connection:
            return await operations.of_instance(connection, known.instance.id)

    async def _load(self, given_id: str) -> InstanceWithOperation:
        if not is_id(given_id):
            raise no_such_instance(given_id)
        async with self._database.connection() as connection:
            known = await load_known(connection, given_id)
        if known is None:
            raise no_such_instance(given_id)
        return known


async def load_known(connection: Connection, given_id: str) -> InstanceWithOperation | None:
    """The instance with that id, ours or the provider's, and its operation; None if it has no record."""
    instance = await instances.load(connection, given_id)
    if instance is None:
        return None
    operation = await operations.load(connection, instance.operation_id)
    return InstanceWithOperation(instance=instance, operation=operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceDescriber:
    """Shows instances to callers of the API, in the merged listing and in webhooks."""

    view: InstanceView
    clock: Clock
    estimates: Estimates
    last_listing_at: Callable[[], datetime | None]

    async def details(self, known: InstanceWithOperation, *, at: datetime | None = None) -> InstanceDetails:
        """What is shown of *known* now, or what was shown at *at*."""
        now, ready_at = self.clock.now() if at is None else at, None
        if known.operation is not None and self.view.has_estimate(known):
            ready_at = await self.estimates.ready_at(known.instance.request.product_name, known.operation.created_at)
        return self.known_at(known, now, estimated_ready_at=ready_at)

    def known_at(
        self, known: InstanceWithOperation, now: datetime, *, estimated_ready_at: datetime | None = None
    ) -> InstanceDetails:
        """What is shown of *known* at *now*; reads nothing, so the estimate is given."""
        listed_at = self.last_listing_at()
        then = AsOf(now=now, last_listing_at=None if listed_at is None else min(listed_at, now))
        return self.view.details(known, then, estimated_ready_at=estimated_ready_at)
