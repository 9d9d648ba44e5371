"""Rebuild: records of all our machines from one listing of the account, after the loss of the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from corral.domain.audit import command_line_entry
from corral.domain.costs.changes import usage_changes
from corral.domain.costs.meter import expected
from corral.domain.errors import CloudTransientError
from corral.domain.events import Change
from corral.domain.instance import Instance, InstanceId, OperationId, ProviderId
from corral.domain.observation.adoption import Adoption, adopted
from corral.domain.observation.compare import made_by
from corral.domain.observation.rebuild import (
    InstallationRecord,
    OwnMachine,
    RebuildOutcome,
    choose,
    installations,
    own_machines,
)
from corral.engine.commands.adopt import completed_create, todays_price
from corral.engine.engine import Engine
from corral.store.installation import installation_id
from corral.store.session.database import Connection
from corral.store.tables import instances, operations, orphans, sealed_secrets
from corral.store.tables.callers import audit
from corral.store.tables.costs import usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """One machine of ours, and its record."""

    finding: OwnMachine
    instance: Instance | None
    """None when no record is to be written."""
    micro_usd: int | None
    """Today's price per hour; None when unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPlan:
    """What a rebuild would record."""

    installation: str
    found: tuple[Assessment, ...]
    others: Counter[str]
    """Machines of other installations, by installation."""
    unmarked: int
    """How many machines have no provider name of a Corral."""

    @property
    def to_record(self) -> list[Assessment]:
        """Machines with a record to be written or updated."""
        return [each for each in self.found if each.instance is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilder:
    """Reads the account and writes records; changes nothing at the provider. No service may run on the database."""

    engine: Engine

    async def plan(self, installation: str | None) -> RebuildPlan:
        """
        What there is to rebuild for *installation*, or for the only one that qualifies; changes nothing.

        Raises GoalRefusedError when the installation is ambiguous, CloudTransientError when the listing is incomplete.
        """
        listing = await self.engine.runtime.cloud.instances()
        if not listing.complete:
            raise CloudTransientError("the provider's list could not be read to its end; nothing was done, try again")
        counts = installations(listing.instances)
        async with self.engine.runtime.database.connection() as connection:
            record = InstallationRecord(
                own=await installation_id.load(connection), is_blank=await instances.none_yet(connection)
            )
            chosen = choose(record, counts, installation)
            ids = {origin.instance_id for origin, _ in made_by(listing.instances, chosen)}
            records = await instances.by_ids(connection, sorted(ids), sorted(s.id for s in listing.instances))
            deleting = {o.provider_id for o in await orphans.load_all(connection) if o.asked_at is not None}
        now = self.engine.runtime.clock.now()
        found = [
            await self._found(each, records.get(each.origin.instance_id), now)
            for each in own_machines(listing.instances, chosen, records, deleting)
        ]
        return RebuildPlan(
            installation=chosen,
            found=tuple(found),
            others=Counter({each: count for each, count in counts.items() if each != chosen}),
            unmarked=len(listing.instances) - counts.total(),
        )

    async def record(self, connection: Connection, plan: RebuildPlan) -> None:
        """
        Write what is new in *plan* and an audit line, in the caller's transaction.

        Every instance is due for a reconcile at once.
        """
        now = self.engine.runtime.clock.now()
        await installation_id.replace(connection, plan.installation)
        new, joined = list[Instance](), list[Instance]()
        for one in plan.found:
            if one.instance is not None:
                (joined if one.finding.outcome is RebuildOutcome.JOINED else new).append(one.instance)
                await orphans.release(connection, one.finding.seen.id)
        if new:
            await instances.add(new, wake_at=now).run(connection)
            await operations.add([completed_create(instance, now) for instance in new]).run(connection)
            because = "rebuilt from the provider's list"
            changes = [Change(before=None, after=instance, because=because, at=now) for instance in new]
            await self.engine.event_publisher.publish(connection, changes)
        used = [each for instance in new for each in usage_changes(None, instance, now)]
        if joined:
            earlier = await instances.by_ids(connection, [instance.id for instance in joined], [])
            await instances.update_many(joined, [now] * len(joined)).run(connection)
            used += [each for instance in joined for each in usage_changes(earlier[instance.id], instance, now)]
            await sealed_secrets.sweep(connection)
        for each in usage.write_many(used):
            await each.run(connection)
        recorded = f"{len(plan.to_record)} of {len(plan.found)} machines of installation {plan.installation}"
        await audit.append([command_line_entry("rebuild", recorded, now)]).run(connection)

    async def _found(self, finding: OwnMachine, record: Instance | None, now: datetime) -> Assessment:
        seen, price = finding.seen, await todays_price(self.engine.catalog, finding.seen)
        instance: Instance | None = None
        match finding.outcome:
            case RebuildOutcome.REBUILT:
                instance = self._rebuilt(finding, finding.origin.instance_id, finding.origin.instance_id, price, now)
                instance = replace(
                    instance,
                    create=replace(instance.create, number=finding.last_attempt),
                    provider_attempt=finding.origin.attempt,
                )
            case RebuildOutcome.DUPLICATE:
                own_id = InstanceId(f"inst_{self.engine.runtime.new_id()}")
                name = f"{finding.origin.instance_id}-attempt-{finding.origin.attempt}"
                instance = self._rebuilt(finding, own_id, name, price, now)
            case RebuildOutcome.JOINED if record is not None:
                # As when a listing shows a create in doubt: the next listing provides the rest.
                instance = replace(
                    record,
                    create=replace(record.create, number=max(record.create.number, finding.last_attempt), sent_at=None),
                    provider_id=ProviderId(seen.id),
                    provider_attempt=finding.origin.attempt,
                    started_at=now,
                    observation=replace(record.observation, meter=expected(record.create.sent_at or record.created_at)),
                )
            case _:
                pass
        return Assessment(
            finding=finding, instance=instance, micro_usd=None if price is None else price * (seen.gpu_num or 1)
        )

    def _rebuilt(
        self, finding: OwnMachine, instance_id: InstanceId, name: str, price: int | None, now: datetime
    ) -> Instance:
        return adopted(
            finding.seen,
            Adoption(name=name, health=self.engine.runtime.create_defaults.health),  # those of its request are lost
            micro_usd_per_gpu=price,
            instance_id=instance_id,
            operation_id=OperationId(f"op_{self.engine.runtime.new_id()}"),
            now=now,
        )


def unknowable() -> Sequence[str]:
    """What a rebuild cannot recover, as sentences for the operator."""
    return (
        "names: the instance id is used instead",
        "templates, and the health checks and webhook addresses given with a create (the settings' apply)",
        "prices as agreed: today's are shown",
        "events, operations, webhook deliveries, the audit log and API keys",
        "creates that had no machine yet, and machines that the provider's list does not show yet",
        "a start, stop or delete that was under way: ask for it again",
    )
