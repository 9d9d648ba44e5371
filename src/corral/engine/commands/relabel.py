"""Changes the labels and the protection of an instance, with event and audit line in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from corral.base.clock import Clock
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.events import Change
from corral.domain.instance import Instance
from corral.domain.operation import InstanceWithOperation
from corral.domain.requests.labels import InstanceChange
from corral.engine.commands.context import CommandContext
from corral.engine.events.publisher import EventPublisher
from corral.engine.ids import is_id, no_such_instance
from corral.store.session.database import Database
from corral.store.tables import instances, labels, operations
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
        self, given_id: str, change: InstanceChange, context: CommandContext
    ) -> tuple[InstanceWithOperation, bool]:
        """
        Give the instance the labels of *change* and no others, and its protection; what is None stays as it is.

        Returns it, and whether that changed anything: the same again writes no event and no audit line. Raises
        NotFoundError.
        """
        if not is_id(given_id):
            raise no_such_instance(given_id)
        async with self.database.transaction() as connection:
            before = await instances.load_for_update(connection, given_id)
            if before is None:
                raise no_such_instance(given_id)
            after, now = _changed(before, change), self.clock.now()
            is_new = after != before
            if is_new:
                update = labels.change(after)
                writes = [
                    update,
                    audit.append([context.line(at=now, instance_id=after.id)]),
                    *usage.write(before, after, now, if_=update.name),
                ]
                changes = [Change(before=before, after=after, because=_because(before, after), at=now)]
                if not await self.event_publisher.write(connection, writes, changes):
                    raise instances.stale(before)
                after = instances.updated(after)
            operation = await operations.load(connection, after.operation_id)
        self.caches.drop(CacheName.INSTANCE_DETAILS, after.id)
        return InstanceWithOperation(instance=after, operation=operation), is_new


def _changed(instance: Instance, change: InstanceChange) -> Instance:
    return replace(
        instance,
        labels=instance.labels if change.labels is None else change.labels,
        protected=instance.protected if change.protected is None else change.protected,
    )


def _because(before: Instance, after: Instance) -> str:
    if before.protected == after.protected:
        return "its labels were changed"
    said = "budgets leave it running now" if after.protected else "budgets may stop it now"
    return said if before.labels == after.labels else f"its labels were changed, and {said}"
