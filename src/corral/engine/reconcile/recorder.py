"""Recording a change of an instance: its row, its operation, its events and jobs, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corral.base.log import log
from corral.domain.events import Change, Progress, lease_events, starts_to_wait, warns_of_purge
from corral.domain.instance import Instance
from corral.domain.lifecycle.transitions import check_transition
from corral.domain.operation import Operation, OperationStatus, advanced
from corral.engine.events.publisher import EventPublisher
from corral.engine.reconcile.grouped_writes import GroupedWrites
from corral.jobs.registry import StepAside
from corral.store.sql.combined_statement import Write
from corral.store.tables import instances, operations, sealed_secrets
from corral.store.tables.costs import usage
from corral.store.tables.fleet import ready_times

_IS_UPDATED: Final = "SELECT EXISTS (SELECT FROM updated_instance) AS is_updated"


@dataclass(slots=True, kw_only=True)
class ReconcileContext:
    """What one reconcile works with: what was read when the instance was locked."""

    operation: Operation | None
    wake_at: datetime | None
    """When the instance is reconciled at the latest."""
    server: datetime | None = None
    """When the database server of that session was started."""
    urgent: bool = False
    """Whether this reconcile was run before earlier jobs."""
    aside: StepAside = nullcontext
    """Frees the place of the job while it waits for a commit that it shares."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of an instance, and why."""

    after: Instance
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writes changes of instances."""

    event_publisher: EventPublisher
    grouped: GroupedWrites

    async def wake_by(self, context: ReconcileContext, instance: Instance, at: datetime) -> None:
        """Make sure that *instance* is reconciled by *at*; an earlier time is kept."""
        if context.wake_at is None or context.wake_at > at:
            async with self.grouped.database.connection() as connection:
                await instances.wake_by(connection, instance.id, at)
            context.wake_at = at

    async def write(
        self,
        context: ReconcileContext,
        before: Instance,
        *transitions: Transition,
        now: datetime,
        wake_at: datetime | None = None,
    ) -> Instance:
        """
        Replace *before* by the last of *transitions*, with an event for each, and return the instance as written.

        A change of phase has the time at which it was made, which may be before *now*; other changes have *now*.

        Raises StaleError if another process changed it since it was read, and IllegalTransitionError if the lifecycle
        has no such change of phase; then nothing was written.
        """
        befores, last = (before, *(each.after for each in transitions)), transitions[-1].after
        for old, transition in zip(befores, transitions, strict=False):
            check_transition(old, transition.after)
        moves = [(old, new) for old, new in zip(befores, transitions, strict=False) if _is_event(old, new.after)]
        update = instances.update(last, wake_at=wake_at)
        also = [
            *sealed_secrets.forget_unneeded([(before, last)], if_=update.name),
            *usage.write(before, last, now, if_=update.name),
        ]
        if not moves:
            async with context.aside():
                row = await self.grouped.run([update, *also], _IS_UPDATED)
            if not row["is_updated"]:
                raise instances.stale(before)
            context.wake_at = wake_at
            return instances.updated(last)
        # A change of the operation also changes its instance: if this write finds the instance as it was read, its
        # operation is unchanged too.
        operation, following, changes = _following(moves, context.operation, now, if_=update.name)
        writes = [update, *following, *also]
        async with context.aside():
            is_written = await self.event_publisher.write_grouped(self.grouped, writes, changes)
        if not is_written:
            raise instances.stale(before)
        context.operation, context.wake_at = operation, wake_at
        for change in changes:
            left, entered = (None if change.before is None else change.before.phase), change.after.phase
            if left is not entered:
                log.info("instance.phase_changed", old=left, new=entered, because=change.because)
        return instances.updated(last)


def _following(
    moves: Sequence[tuple[Instance, Transition]], operation: Operation | None, now: datetime, *, if_: str
) -> tuple[Operation | None, list[Write], list[Change]]:
    """The operation after *moves*, the writes to combine with that named *if_*, and the changes to publish."""
    writes: list[Write] = []
    changes: list[Change] = []
    latest = operation
    for old, transition in moves:
        progress = None
        at = now if old.phase is transition.after.phase else transition.after.phase_since
        if latest is not None:
            earlier, latest = latest, advanced(latest, transition.after, at)
            progress = Progress(before=earlier, after=latest)
            is_over = latest.status is OperationStatus.COMPLETED and earlier.status is not latest.status
            if is_over and latest.stamps.get("ready") == at:
                writes.append(ready_times.add(transition.after.request.product_name, latest, if_=if_))
        changes.append(Change(before=old, after=transition.after, because=transition.because, at=at, progress=progress))
    if latest is not None and latest is not operation:
        writes.append(operations.update(latest, if_=if_))
    return latest, writes, changes


def _is_event(before: Instance, after: Instance) -> bool:
    """Whether a change causes an event: another phase, progress of the pending action, a notice, a new wait."""
    return (
        before.phase is not after.phase
        or before.pending.action is not after.pending.action
        or before.pending.refused != after.pending.refused
        or before.announced_spot != after.announced_spot
        or starts_to_wait(before, after)
        or warns_of_purge(before, after)
        or bool(lease_events(before, after))
    )
