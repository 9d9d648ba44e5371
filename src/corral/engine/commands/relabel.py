"""Replaces the labels of an instance: labels, event and audit line in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from corral.base.clock import Clock
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.events import Change
from corral.domain.instance import Labels
from corral.domain.operation import InstanceWithOperation
from corral.engine.commands.context import CommandContext
from corral.engine.events.publisher import EventPublisher
from corral.engine.ids import is_id, no_such_instance
from corral.store.session.database import Database
from corral.store.tables import instances, operations
from corral.store.tables.callers import audit
from corral.store.tables.costs import usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RelabelInstance:
    """The command that changes labels. It is allowed in every phase, because nothing is done to the machine."""

    database: Database
    event_publisher: EventPublisher
    caches: CacheRegistry
    clock: Clock

    async def replace(
        self, given_id: str, labels: Labels, context: CommandContext
    ) -> tuple[InstanceWithOperation, bool]:
        """
        Give the instance *labels* and no others; returns it, and whether that changed anything.

        The same labels again write no event and no audit line. Raises NotFoundError.
        """
        if not is_id(given_id):
            raise no_such_instance(given_id)
        async with self.database.transaction() as connection:
            before = await instances.load_for_update(connection, given_id)
            if before is None:
                raise no_such_instance(given_id)
            after, is_new, now = replace(before, labels=labels), labels != before.labels, self.clock.now()
            if is_new:
                update = instances.relabel(after)
                writes = [
                    update,
                    audit.append([context.line(at=now, instance_id=after.id)]),
                    *usage.write(before, after, now, if_=update.name),
                ]
                change = Change(before=before, after=after, because="its labels were changed", at=now)
                if not await self.event_publisher.write(connection, writes, [change]):
                    raise instances.stale(before)
                after = instances.updated(after)
            operation = await operations.load(connection, after.operation_id)
        self.caches.drop(CacheName.INSTANCE_DETAILS, after.id)
        return InstanceWithOperation(instance=after, operation=operation), is_new
