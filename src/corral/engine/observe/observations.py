"""
Recording what a listing or a lookup showed: every observation is written here.

Changes are written in one statement, and a job is enqueued for each instance that something follows for. An instance
that another process changed meanwhile is left as it is; the next listing compares it again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Listing
from corral.domain.costs.changes import usage_changes
from corral.domain.costs.loose import loose_usage
from corral.domain.errors import IllegalTransitionError
from corral.domain.instance import Instance, InstanceId
from corral.domain.leases.decide import judge
from corral.domain.lifecycle.decide import decide
from corral.domain.lifecycle.phases import COMING_UP, ENDING, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.transitions import check_transition, decided
from corral.domain.observation.compare import (
    Comparison,
    after_lookup,
    compare,
    found_unlisted,
    made_by,
    name_not_found,
)
from corral.domain.observation.matching import Match, matched
from corral.domain.observation.observations import ObservationTimes, with_machine
from corral.domain.observation.orphans import orphan_event, orphan_of
from corral.domain.observation.sighting import GOING, ProviderInstance, Sighting
from corral.engine.events.publisher import EventPublisher
from corral.engine.payloads import about
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import RELEASE
from corral.store.installation import installation_id, last_listing
from corral.store.installation.last_listing import ListingStart
from corral.store.session.database import Connection, Database
from corral.store.tables import instances, orphans, sealed_secrets
from corral.store.tables.costs import usage

SettledCreates = Callable[[Iterable[Instance]], Container[InstanceId]]
"""Returns the creates in doubt that were known for the settle time, so that a listing without them counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Compares observations with the records, and writes the difference."""

    database: Database
    queue: JobQueue
    clock: Clock
    policy: Policy
    installation: str
    event_publisher: EventPublisher

    async def record(
        self,
        listing: Listing,
        *,
        began: datetime,
        settled: SettledCreates | None = None,
        begun: ListingStart | None = None,
    ) -> Comparison:
        """
        Record what *listing* shows, and return the comparison.

        Absences are recorded only with *settled*, which returns the creates in doubt that the listing counts for. Only
        the observer passes it: an absence is confirmed by complete listings some time apart. Without it only the
        records of the listed machines are read. With *begun*, the database records that this listing was compared, if
        it is trusted.
        """
        complete = listing.complete and settled is not None
        async with self.database.transaction() as connection:
            watched = {} if settled is None else {i.id: i for i in await instances.watched(connection)}
            remembered = watched | await unmatched_records(
                connection, watched.values(), listing.instances, self.installation
            )
            found = compare(
                remembered,
                listing.instances,
                self._times(began),
                complete=complete,
                installation=self.installation,
                settled=() if settled is None else settled(watched.values()),
            )
            is_written = await self._write(connection, remembered, found)
            await self._note_orphans(connection, found, remembered, began=began)
            if found.trusted:
                await usage.end_unlisted(connection, [seen.id for seen in listing.instances], self.clock.now())
            if found.confirmed:
                await usage.confirm(connection, found.confirmed, began)
            if complete:
                confirmed_at = began if found.confirms_usage and is_written else None
                await last_listing.remember(connection, self.clock.now(), confirmed_at=confirmed_at)
            if found.trusted and begun is not None:
                await last_listing.compared(connection, begun)
        return found

    async def record_one(
        self, instance_id: InstanceId, seen: ProviderInstance | None, *, began: datetime, unseen: bool = False
    ) -> None:
        """
        Record what a lookup of one instance, begun at *began*, showed; *seen* is None if it was not found.

        *unseen*: no page of the list showed the machine for a while.
        """
        async with self.database.transaction() as connection:
            known = await instances.load(connection, instance_id)
            if known is None:
                return
            after = after_lookup(known, seen, self._times(began), unseen=unseen)
            if after is not known:
                await self._write_changed(connection, {known.id: known}, [after])

    async def record_named(self, instance: Instance, seen: ProviderInstance, *, began: datetime) -> None:
        """Record that a lookup of the name of a create in doubt found its machine."""
        async with self.database.transaction() as connection:
            known = await instances.load(connection, instance.id)
            if known is None or not known.create_in_doubt or known.create.number != instance.create.number:
                return
            matches, _, _ = matched({known.id: known}, made_by([seen], self.installation))
            for match in matches:
                log.info("instance.adopted_by_name", instance_id=known.id, provider_id=seen.id, moved=False)
                after = with_machine(match, self._times(began))
                await self._write_changed(connection, {known.id: known}, [after])

    async def record_unnamed(self, instance: Instance, *, began: datetime) -> None:
        """Record that a lookup of the name of a create in doubt, after the settle time, found nothing."""
        counted = name_not_found(instance, self._times(began))
        if counted is not None:
            async with self.database.connection() as connection:
                await instances.update_many([counted], [self.clock.now()]).run(connection)

    async def record_move(self, match: Match, old: ProviderInstance | None, *, began: datetime) -> None:
        """Record what a lookup of the *old* machine of a record showed, after a listing showed another in its place."""
        now = self.clock.now()
        async with self.database.transaction() as connection:
            known = await instances.load(connection, match.record.id)
            if known is None or known.generation != match.record.generation:
                return
            if old is not None and old.sighting not in GOING:
                await self._write_changed(connection, {known.id: known}, [found_unlisted(known, now)])
            elif await orphans.release(connection, match.seen.id):
                log.warning("instance.adopted_by_name", instance_id=known.id, provider_id=match.seen.id, moved=True)
                after = with_machine(match, self._times(began))
                await self._write_changed(connection, {known.id: known}, [after])

    def _times(self, began: datetime) -> ObservationTimes:
        return ObservationTimes(began=began, now=self.clock.now(), settle=self.policy.settle)

    async def _write_changed(
        self,
        connection: Connection,
        before: Mapping[InstanceId, Instance],
        changed: Sequence[Instance],
        counted: Sequence[Instance] = (),
    ) -> bool:
        """
        Write both in one statement, which locks the rows in one order; enqueue jobs for *changed* that are due.

        Returns whether all were written: another process may have changed some, and a mistake in Corral is not written.
        """
        legal = [i for i in changed if _is_legal(before[i.id], i)]
        if not legal and not counted:
            return len(legal) == len(changed)
        is_complete, changed = len(legal) == len(changed), legal
        now = self.clock.now()
        due = {i.id: next_wake_at(i, now, self.policy) for i in changed}
        wake_at = [*(due[i.id] for i in changed), *(now for _ in counted)]
        rows = await instances.update_many([*changed, *counted], wake_at).run(connection)
        written = {row["id"] for row in rows}
        used = [each for i in changed if i.id in written for each in usage_changes(before[i.id], i, now)]
        for each in usage.write_many(used):
            await each.run(connection)
        for each in sealed_secrets.forget_unneeded([(before[i.id], i) for i in changed if i.id in written]):
            await each.run(connection)
        wanted = [i for i in changed if i.id in written and not due[i.id]]
        if wanted:
            await self.queue.add([_job_for(i) for i in wanted]).run(connection)
        return is_complete and all(i.id in written for i in changed)

    async def _write(
        self, connection: Connection, remembered: Mapping[InstanceId, Instance], found: Comparison
    ) -> bool:
        given = {match.record.id: match for match in found.matches}
        # A machine that a delete was sent for is not adopted any more.
        refused = {key for key, match in given.items() if not await orphans.release(connection, match.seen.id)}
        changed = [i for i in found.changed if i.id not in refused]
        for key, match in given.items():
            if key not in refused:
                log.warning("instance.adopted_by_name", instance_id=key, provider_id=match.seen.id, moved=match.moved)
        return await self._write_changed(connection, remembered, changed, found.counted) and not refused

    async def _note_orphans(
        self, connection: Connection, found: Comparison, remembered: Mapping[InstanceId, Instance], *, began: datetime
    ) -> None:
        now = self.clock.now()
        seen = [orphan_of(each, now) for each in found.unmatched]
        new = await orphans.note(connection, seen, now)
        fresh = [orphan for orphan in seen if orphan.provider_id in new]
        for orphan in fresh:
            log.warning("orphan.found", provider_id=orphan.provider_id, name=orphan.name, kind=orphan.kind.value)
        because = "a machine under its name belongs to no record: {0.provider_id} ({0.kind}); see /api/orphans"
        await self.event_publisher.publish(
            connection,
            [orphan_event(each, remembered.get(each.made_for), because.format(each), now) for each in fresh],
        )
        if found.trusted:
            await orphans.forget_others(connection, seen)
        if not found.unmatched:
            return
        installed_at = await installation_id.installed_at(connection)
        used = [
            change
            for each in found.unmatched
            for change in loose_usage(
                each, remembered.get(each.origin.instance_id), installed_at=installed_at, began=began, now=now
            )
        ]
        for each in usage.write_many(used):
            await each.run(connection)


def _is_legal(before: Instance, after: Instance) -> bool:
    """Whether *after* may be written; a mistake in Corral is logged, and the other instances are written."""
    try:
        check_transition(before, after)
    except IllegalTransitionError as error:
        log.error("instance.illegal_transition", instance_id=before.id, why=error.message)
        return False
    return True


async def unmatched_records(
    connection: Connection, known: Iterable[Instance], listed: Iterable[ProviderInstance], installation: str
) -> dict[InstanceId, Instance]:
    """The records, beside *known*, of listed machines: by their names or their provider ids."""
    ids, provider_ids = set[InstanceId](), set[str]()
    for instance in known:
        ids.add(instance.id)
        if instance.provider_id is not None:
            provider_ids.add(instance.provider_id)
    listed = [seen for seen in listed if seen.id not in provider_ids]
    origins = {origin.instance_id for origin, _ in made_by(listed, installation)} - ids
    if not listed:
        return {}
    return await instances.by_ids(connection, sorted(origins), sorted(seen.id for seen in listed))


def next_wake_at(instance: Instance, now: datetime, policy: Policy) -> datetime | None:
    """When the next reconcile is due; None: now, because something follows from the observation."""
    decision = decide(instance, now, policy)
    if (
        decision.action is not None
        or decision.requeue_after is None
        or decided(instance, decision, now) is not instance
    ):
        return None
    # Without measurements; where these matter, their sampler requests the reconcile.
    judged = judge(instance, (), now)
    lease_wake_at = judged.wake_at if judged.state is instance.lease else now
    return min(filter(None, (now + decision.requeue_after, lease_wake_at)))


def reconcile_job(instance_id: InstanceId, phase: Phase, *, first: bool = False) -> NewJob:
    """The job that reconciles this instance; *first*: before creates."""
    payload = {"instanceId": instance_id}
    if phase in ENDING:
        return NewJob(type=RELEASE, payload=payload)
    return NewJob(type="monitor_instance", payload=payload, first=first)


def _job_for(instance: Instance) -> NewJob:
    wanted = reconcile_job(instance.id, instance.phase, first=_awaits_corral(instance))
    return replace(wanted, payload=about(instance))


def _awaits_corral(instance: Instance) -> bool:
    """Whether the machine runs and is billed, and only Corral has to act before it can be used."""
    return instance.phase in COMING_UP and instance.observation.sighting is Sighting.RUNNING
