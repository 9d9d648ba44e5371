"""Rebuilding: after the loss of the database, records of all our machines, from one listing of the account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from corral.base.clock import Clock
from corral.cloud.port import Cloud
from corral.domain.errors import CloudTransientError
from corral.domain.events import Change
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import Instance, InstanceId, OperationId, ProviderId
from corral.domain.observation.adoption import Adoption, adopted
from corral.domain.observation.compare import marked
from corral.domain.observation.rebuild import (
    InstallationRecord,
    MarkedMachine,
    RebuildOutcome,
    choose,
    installations,
    marked_machines,
)
from corral.engine.commands.adopt import completed_create, todays_price
from corral.engine.queries.catalog import Catalog
from corral.engine.reconcile.recorder import Tell
from corral.store.session.database import Connection, Database
from corral.store.tables import installation_id, instances, operations, orphans


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """One machine of ours, and what is (to be) recorded of it."""

    finding: MarkedMachine
    instance: Instance | None
    """None when nothing is to be recorded of it."""
    micro_usd: int | None
    """Per hour, as of today; None when that cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPlan:
    """What the account shows."""

    installation: str
    found: tuple[Assessment, ...]
    others: Counter[str]
    """How many machines other installations have."""
    unmarked: int
    """How many machines no Corral made."""

    @property
    def to_record(self) -> list[Assessment]:
        """Those that are new to the database, in whole or in part."""
        return [each for each in self.found if each.instance is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilder:
    """Reads the account and writes records; the provider is only looked at, and no service may be running."""

    cloud: Cloud
    catalog: Catalog
    database: Database
    tell: Tell
    clock: Clock
    new_id: Callable[[], str]
    health: HealthCheckSpec
    """How machines are checked from here on; what their orders said is lost."""

    async def plan(self, installation: str | None) -> RebuildPlan:
        """
        What there is to rebuild; changes nothing.

        Raises GoalRefusedError when it is not certain which installation is meant, CloudTransientError when the account
        could not be read whole: half of it would be taken for all.
        """
        listing = await self.cloud.instances()
        if not listing.complete:
            raise CloudTransientError("the provider's list could not be read to its end; nothing was done, try again")
        marks = installations(listing.instances)
        async with self.database.connection() as connection:
            record = InstallationRecord(
                own=await installation_id.load(connection), is_blank=await instances.none_yet(connection)
            )
            chosen = choose(record, marks, installation)
            ids = {mark.instance_id for mark, _ in marked(listing.instances, chosen)}
            remembered = await instances.by_ids(connection, sorted(ids), sorted(s.id for s in listing.instances))
            doomed = {o.provider_id for o in await orphans.load_all(connection) if o.asked_at is not None}
        now = self.clock.now()
        found = [
            await self._found(each, remembered.get(each.mark.instance_id), now)
            for each in marked_machines(listing.instances, chosen, remembered, doomed)
        ]
        return RebuildPlan(
            installation=chosen,
            found=tuple(found),
            others=Counter({mark: count for mark, count in marks.items() if mark != chosen}),
            unmarked=len(listing.instances) - marks.total(),
        )

    async def record(self, connection: Connection, plan: RebuildPlan) -> None:
        """Write down what is new in *plan*, within the caller's transaction; every one is looked at soon."""
        now = self.clock.now()
        await installation_id.replace(connection, plan.installation)
        new = [
            one.instance for one in plan.to_record if one.finding.outcome is not RebuildOutcome.JOINED if one.instance
        ]
        joined = [
            one.instance for one in plan.to_record if one.finding.outcome is RebuildOutcome.JOINED if one.instance
        ]
        for one in plan.to_record:
            await orphans.release(connection, one.finding.seen.id)
        if new:
            await instances.add(new, wake_at=now).run(connection)
            await operations.add([completed_create(instance, now) for instance in new]).run(connection)
            because = "rebuilt from the provider's list"
            await self.tell(connection, [Change(before=None, after=i, because=because, at=now) for i in new])
        if joined:
            await instances.update_many(joined, [now] * len(joined)).run(connection)

    async def _found(self, finding: MarkedMachine, record: Instance | None, now: datetime) -> Assessment:
        seen, price = finding.seen, await todays_price(self.catalog, finding.seen)
        instance: Instance | None = None
        match finding.outcome:
            case RebuildOutcome.REBUILT:
                instance = self._rebuilt(finding, finding.mark.instance_id, finding.mark.instance_id, price, now)
                instance = replace(
                    instance,
                    create=replace(instance.create, number=finding.last_attempt),
                    provider_attempt=finding.mark.attempt,
                )
            case RebuildOutcome.DUPLICATE:
                own_id = InstanceId(f"inst_{self.new_id()}")
                name = f"{finding.mark.instance_id}-attempt-{finding.mark.attempt}"
                instance = self._rebuilt(finding, own_id, name, price, now)
            case RebuildOutcome.JOINED if record is not None:
                # As when a create that was in doubt shows: the next look at the account tells the rest.
                instance = replace(
                    record,
                    create=replace(record.create, number=max(record.create.number, finding.last_attempt), sent_at=None),
                    provider_id=ProviderId(seen.id),
                    provider_attempt=finding.mark.attempt,
                    started_at=now,
                )
            case _:
                pass
        return Assessment(
            finding=finding, instance=instance, micro_usd=None if price is None else price * (seen.gpu_num or 1)
        )

    def _rebuilt(
        self, finding: MarkedMachine, instance_id: InstanceId, name: str, price: int | None, now: datetime
    ) -> Instance:
        return adopted(
            finding.seen,
            Adoption(name=name, health=self.health),
            micro_usd_per_gpu=price,
            instance_id=instance_id,
            operation_id=OperationId(f"op_{self.new_id()}"),
            now=now,
        )


def unknowable() -> Sequence[str]:
    """What a machine does not tell, for people: the rest of what was remembered is lost."""
    return (
        "names: the instance id stands in",
        "templates, and the health checks and webhook addresses given with a create (the settings' apply)",
        "prices as agreed: today's are shown",
        "events, operations, webhook deliveries, the audit log and API keys",
        "wishes that had no machine yet, and machines that the provider's list does not show yet",
        "a start, stop or delete that was under way: ask for it again",
    )
