"""
Orphans: always reported, deleted only after their grace period.

A machine that a create call of ours made after the call was given up is deleted then; any other only with
CORRAL_ORPHANS=delete, because a restored or copied database cannot know which record owns it. Each deletion has an
event.

The observer records orphans in every listing (`engine/observe/observations.py`); this sweep reads their price and
deletes them. Before that it looks the machine up, which must still have our provider name, and claims it in the
database, in which no record may name it (the instance that it was made for may have a record, with another machine).
From the claim on it cannot be adopted. The next sweep repeats a deletion that had no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.costs.usage import HOURS
from corral.domain.errors import CloudError
from corral.domain.observation.orphans import Orphan, may_delete, orphan_event
from corral.engine.events.publisher import EventPublisher
from corral.engine.queries.catalog import Catalog
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables import instances, orphans
from corral.store.tables.costs import unpriced

OrphanRule = Literal["report", "delete"]


def is_deleted(orphan: Orphan, rule: OrphanRule) -> bool:
    """Whether *orphan* is deleted once its grace period is over."""
    return rule == "delete" or orphan.is_ours


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanSweep:
    """Reads the prices of orphans, and deletes them."""

    cloud: Cloud
    catalog: Catalog
    database: Database
    event_publisher: EventPublisher
    clock: Clock
    installation: str
    rule: OrphanRule

    def job_type(self) -> JobType:
        """The sweep, every minute."""
        return JobType(name="sweep_orphans", handler=self.sweep, priority=Priority.LOW, every=timedelta(minutes=1))

    async def sweep(self, _run: JobRun) -> None:
        """Store prices, and delete what may be deleted; ends at the first error of the provider."""
        async with self.database.connection() as connection:
            found = await orphans.load_all(connection)
        try:
            for orphan in found:
                await self._store_price(orphan)
                if is_deleted(orphan, self.rule) and self.clock.now() >= orphan.spared_until:
                    await self._delete(orphan)
        except CloudError as error:
            log.warning("orphan.sweep_failed", why=error.message)

    async def _store_price(self, orphan: Orphan) -> None:
        if orphan.micro_usd is not None or orphan.cluster_id is None or orphan.product_id is None:
            return
        price = await self.catalog.price(orphan.cluster_id, orphan.product_id, orphan.billing_mode)
        if price is not None:
            async with self.database.transaction() as connection:
                await orphans.remember_price(connection, orphan.provider_id, price * orphan.gpu_num)
                await unpriced.price_known(connection, orphan.provider_id, price * HOURS)

    async def _delete(self, orphan: Orphan) -> None:
        seen = await self.cloud.instance(orphan.provider_id)
        now = self.clock.now()
        if not may_delete(orphan, seen, installation=self.installation, now=now):
            return
        async with self.database.transaction() as connection:
            if not await orphans.claim(connection, orphan.provider_id, now):
                return
            if orphan.asked_at is None:
                because = (
                    f"the machine {orphan.provider_id} under its name ({orphan.kind}) is deleted after its grace period"
                )
                record = await instances.load(connection, orphan.made_for)
                await self.event_publisher.publish(connection, [orphan_event(orphan, record, because, now)])
        log.warning(
            "orphan.deleted",
            provider_id=orphan.provider_id,
            name=orphan.name,
            kind=orphan.kind.value,
            since=str(orphan.first_seen_at),
        )
        await self.cloud.delete(orphan.provider_id)
