"""
Writing down what a listing of the account, or a look at one, told: the one way in which sightings are recorded.

What changed is written in one statement, and instances about which something follows from it get a pass. One that
somebody else changed meanwhile is left as it is; the next look compares anew.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.clock import Clock
from corral.cloud.port import Listing
from corral.domain.decide import Policy, decide, recorded
from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle import COMING_UP, ENDING, Phase
from corral.domain.orphans import orphan_of
from corral.domain.sighting import ProviderInstance, Sighting
from corral.domain.survey import Survey, marked, peeked, survey
from corral.jobs.queue import JobQueue, Wanted
from corral.jobs.registry import RELEASE
from corral.store import instances, looks, orphans
from corral.store.database import Connection, Database
from corral.telemetry import log

Outlasted = Callable[[Iterable[Instance]], Container[InstanceId]]
"""Tells of which of these a doubt has been known for the settle time, so that a listing without them counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """Compares listings with what is remembered, and records the difference."""

    database: Database
    queue: JobQueue
    clock: Clock
    policy: Policy
    installation: str

    async def record(self, listing: Listing, *, began: datetime, outlasted: Outlasted | None = None) -> None:
        """
        Record what *listing* shows.

        That something is missing is recorded with *outlasted* only, which tells for which creates in doubt it counts.
        It is for the observer to say: what it takes to call an instance gone, or a create undone, are complete listings
        some time apart.
        """
        complete = listing.complete and outlasted is not None
        async with self.database.transaction() as connection:
            watched = {i.id: i for i in await instances.watched(connection)}
            remembered = watched | await strangers(connection, watched.values(), listing.instances, self.installation)
            found = survey(
                remembered,
                listing.instances,
                complete=complete,
                began=began,
                installation=self.installation,
                settle=self.policy.settle,
                outlasted=() if outlasted is None else outlasted(watched.values()),
            )
            await self._write(connection, found)
            await self._note_orphans(connection, found, complete=complete)
            if complete:
                await looks.remember(connection, self.clock.now())

    async def record_one(self, instance_id: InstanceId, seen: ProviderInstance | None, *, began: datetime) -> None:
        """Record what a look at one instance alone, begun at *began*, showed; None: it was not found."""
        async with self.database.transaction() as connection:
            known = await instances.load(connection, instance_id)
            if known is None:
                return
            after = peeked(known, seen, began=began, settle=self.policy.settle)
            if after is not known:
                await self._write_changed(connection, [after])

    async def _write_changed(self, connection: Connection, changed: Sequence[Instance]) -> None:
        now = self.clock.now()
        due = {i.id: next_look(i, now, self.policy) for i in changed}
        written = await instances.write_many(connection, changed, [due[i.id] for i in changed])
        wanted = [i for i in changed if i.id in written and not due[i.id]]
        await self.queue.enqueue(connection, [a_pass(i.id, i.phase, first=_waits_for_us(i)) for i in wanted])

    async def _write(self, connection: Connection, found: Survey) -> None:
        if found.changed:
            await self._write_changed(connection, found.changed)
        if found.counted:
            await instances.write_many(connection, found.counted, [self.clock.now()] * len(found.counted))
        for mark, seen in found.duplicates:
            log.warning("instance.duplicate_found", instance_id=mark.instance_id, provider_id=seen.id)
        await self.queue.enqueue(
            connection,
            [
                Wanted(
                    type="remove_duplicate",
                    payload={"instanceId": mark.instance_id, "novitaInstanceId": seen.id},
                    only_one=f"duplicate:{seen.id}",
                    first=True,
                )
                for mark, seen in found.duplicates
            ],
        )

    async def _note_orphans(self, connection: Connection, found: Survey, *, complete: bool) -> None:
        now = self.clock.now()
        seen = [orphan_of(mark, each, now) for mark, each in found.orphans]
        new = await orphans.note(connection, seen, now)
        for orphan in seen:
            if orphan.provider_id in new:
                log.warning("orphan.found", provider_id=orphan.provider_id, name=orphan.name)
        if complete:
            await orphans.forget_others(connection, seen)


async def strangers(
    connection: Connection, known: Iterable[Instance], listed: Iterable[ProviderInstance], installation: str
) -> dict[InstanceId, Instance]:
    """The records, beside *known*, that belong to something listed: by its mark, or by the provider's id of it."""
    ids, provider_ids = set[InstanceId](), set[str]()
    for instance in known:
        ids.add(instance.id)
        if instance.provider_id is not None:
            provider_ids.add(instance.provider_id)
    listed = [seen for seen in listed if seen.id not in provider_ids]
    marks = {mark.instance_id for mark, _ in marked(listed, installation)} - ids
    if not listed:
        return {}
    return await instances.belonging(connection, sorted(marks), sorted(seen.id for seen in listed))


def next_look(instance: Instance, now: datetime, policy: Policy) -> datetime | None:
    """When a pass is next due if none is due now; None when one is: something follows from what was seen."""
    decision = decide(instance, now, policy)
    if decision.action is not None or decision.look_again is None or recorded(instance, decision, now) is not instance:
        return None
    return now + decision.look_again


def a_pass(instance_id: InstanceId, phase: Phase, *, first: bool = False) -> Wanted:
    """The job that looks at this instance; *first*: before others are created."""
    payload = {"instanceId": instance_id}
    if phase in ENDING:
        return Wanted(type=RELEASE, payload=payload)
    return Wanted(type="monitor_instance", payload=payload, first=first)


def _waits_for_us(instance: Instance) -> bool:
    """Whether the provider has done its part, and bills for it, while nobody can use it yet."""
    return instance.phase in COMING_UP and instance.sighting is Sighting.RUNNING
