"""Adopts provider instances, by id or by name: one without a record gets one, and Corral manages it from then on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from corral.base.clock import Clock
from corral.base.log import correlation_id
from corral.base.tracing import tracing
from corral.cache.registry import CacheName, CacheRegistry
from corral.cloud.port import Cloud
from corral.domain.audit import AuditEntry
from corral.domain.errors import CloudError, GoalRefusedError
from corral.domain.events import Change
from corral.domain.instance import Instance, InstanceId, OperationId
from corral.domain.observation.adoption import Adoption, adopted, billing_mode, completed
from corral.domain.observation.provider_names import parse_provider_name
from corral.domain.observation.sighting import GOING, ProviderInstance, Sighting
from corral.domain.operation import InstanceWithOperation, Operation, OperationKind, OperationStatus
from corral.engine.commands.create import REMIND_AFTER
from corral.engine.events.publisher import EventPublisher
from corral.engine.ids import is_id, name_ambiguous, no_instance_named, no_such_instance
from corral.engine.payloads import about
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.instances import load_known
from corral.jobs.queue import JobQueue, NewJob
from corral.store.session.database import Database
from corral.store.tables import instances, operations, orphans
from corral.store.tables.callers import audit
from corral.store.tables.costs import usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptInstance:
    """The command that adopts instances; it only reads from the provider."""

    cloud: Cloud
    catalog: Catalog
    database: Database
    queue: JobQueue
    event_publisher: EventPublisher
    caches: CacheRegistry
    clock: Clock
    installation: str
    new_id: Callable[[], str]

    async def adopt(self, provider_id: str, adoption: Adoption, line: AuditEntry) -> tuple[InstanceWithOperation, bool]:
        """
        The instance, and whether it is new; one with a record is returned unchanged.

        *line* is written to the audit log in the transaction of the adoption; not when nothing changed.

        Raises NotFoundError when the provider does not have it, and GoalRefusedError when it is being deleted or was
        made by a create of ours that is still reconciled. A machine that is reported as an orphan can be adopted.
        """
        if not is_id(provider_id):
            raise no_such_instance(provider_id)
        known = await self._known(provider_id)
        if known is not None:
            return known, False
        seen = await self._seen(provider_id)
        price = await todays_price(self.catalog, seen)
        now = self.clock.now()
        instance = adopted(
            seen,
            adoption,
            micro_usd_per_gpu=price,
            instance_id=InstanceId(f"inst_{self.new_id()}"),
            operation_id=OperationId(f"op_{self.new_id()}"),
            now=now,
            adopted_by=line.who,
        )
        operation = completed_create(instance, now)
        if not await self._record(instance, operation, line):
            known = await self._known(seen.id)
            if known is not None:  # another request adopted it at the same time
                return known, False
        self.caches.clear(CacheName.MERGED_LISTING)
        return InstanceWithOperation(instance=instance, operation=operation), True

    async def _known(self, given_id: str) -> InstanceWithOperation | None:
        async with self.database.connection() as connection:
            return await load_known(connection, given_id)

    async def _seen(self, provider_id: str) -> ProviderInstance:
        seen = await self.cloud.instance(provider_id)
        if seen is None or seen.sighting is Sighting.ABSENT:
            raise no_such_instance(provider_id)
        if seen.sighting is Sighting.REMOVING:
            raise GoalRefusedError(f"{provider_id} is being deleted at the provider")
        provider_name = parse_provider_name(seen.name)
        if provider_name is not None and provider_name.installation == self.installation:
            async with self.database.connection() as connection:
                owner = await instances.load(connection, provider_name.instance_id)
                is_reported = await orphans.is_noted(connection, seen.id)
            if owner is not None and not is_reported:
                raise GoalRefusedError(
                    f"{provider_id} was made for {owner.id}, which is {owner.phase}, and is reconciled with it",
                    details={"instanceId": owner.id},
                )
        if seen.product_id is not None:
            return seen
        listing = await self.cloud.instances()
        return completed(seen, next((each for each in listing.instances if each.id == seen.id), None))

    async def _record(self, instance: Instance, operation: Operation, line: AuditEntry) -> bool:
        """Record the adoption; False when another request recorded it first."""
        now, seen_id = self.clock.now(), str(instance.provider_id)
        async with self.database.transaction() as connection:
            if not await orphans.release(connection, seen_id):
                raise GoalRefusedError(f"{seen_id} is being deleted as an orphan")
            if not await instances.add_unless_known(instance, wake_at=now + REMIND_AFTER).run(connection):
                return False
            for each in usage.write(None, instance, now):
                await each.run(connection)
            caused = replace(operation, correlation_id=correlation_id(), traceparent=tracing.traceparent())
            await operations.add([caused]).run(connection)
            await self.queue.add([NewJob(type="monitor_instance", payload=about(instance))]).run(connection)
            await self.event_publisher.publish(
                connection, [Change(before=None, after=instance, because="adopted", at=now)]
            )
            await audit.append([line.about(instance.id)]).run(connection)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderNameLookup:
    """Looks an instance up by its name at the provider, when no record has that name."""

    cloud: Cloud
    adopting: AdoptInstance
    adoption: Adoption

    async def startable(self, name: str, line: AuditEntry) -> InstanceId:
        """
        The one stopped instance with exactly that name; one without a record is adopted, with *line* as audit line.

        Raises NotFoundError, and GoalRefusedError for several, or for one that is not stopped: that is left alone.
        """
        listing = await self.cloud.instances()
        found = [seen for seen in listing.instances if seen.name == name and seen.sighting not in GOING]
        if not found:
            raise no_instance_named(name)
        if len(found) > 1:
            raise name_ambiguous(name, {"novitaInstanceIds": [seen.id for seen in found]})
        (seen,) = found
        if seen.sighting is not Sighting.EXITED:
            raise GoalRefusedError(
                f"{name!r} is {seen.provider_status} at the provider and cannot be started: only a stopped one can be",
                code="INSTANCE_NOT_STARTABLE",
                details={"novitaInstanceId": seen.id, "status": seen.provider_status},
            )
        known, _ = await self.adopting.adopt(seen.id, self.adoption, line)
        return known.instance.id


async def todays_price(catalog: Catalog, seen: ProviderInstance) -> int | None:
    """The present price of its product in micro-USD a GPU-hour; None when the provider does not say."""
    if seen.cluster_id is None or seen.product_id is None:
        return None
    try:
        return await catalog.price(seen.cluster_id, seen.product_id, billing_mode(seen))
    except CloudError:
        return None


def completed_create(instance: Instance, now: datetime) -> Operation:
    """
    The operation of an adopted instance.

    It is complete at once: no call was sent, and its times must not enter the estimates.
    """
    return Operation(
        id=instance.operation_id,
        instance_id=instance.id,
        kind=OperationKind.CREATE,
        status=OperationStatus.COMPLETED,
        created_at=now,
    )
