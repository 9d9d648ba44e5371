"""Writing a change of an instance down: its row, its operation, its event and its follow-ups, in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from corral.base.telemetry import log
from corral.domain.events import Change, Progress, starts_to_wait
from corral.domain.instance import Instance
from corral.domain.lifecycle.transitions import check_transition
from corral.domain.operation import Operation, OperationStatus, advanced
from corral.store.session.database import Connection
from corral.store.sql.combined_statement import Write
from corral.store.tables import instances, operations, ready_times

Tell = Callable[[Connection, Sequence[Change]], Awaitable[None]]
"""Records that changes happened, within the transaction that made them."""


class Publisher(Protocol):
    """Who tells of changes."""

    async def write(self, connection: Connection, writes: Sequence[Write], changes: Sequence[Change]) -> bool:
        """Make *writes* and tell of *changes*; False, with nothing done, when the first write returns nothing."""
        ...


@dataclass(slots=True, kw_only=True)
class ReconcileContext:
    """An instance in the hands of a pass: the connection that has its lock, and what the pass knows beside it."""

    connection: Connection
    operation: Operation | None
    wake_at: datetime | None
    """When it is to be looked at in any case; one that is taken down meanwhile has become a pass."""
    server: datetime | None = None
    """When the database server of that connection was started: a restored one is started after its rows were made."""
    urgent: bool = False
    """Whether others wait that came earlier."""

    async def wake_by(self, instance: Instance, at: datetime) -> None:
        """See to it that *instance* is looked at by *at*; an earlier reminder stands."""
        if self.wake_at is None or self.wake_at > at:
            await instances.wake_by(self.connection, instance.id, at)
            self.wake_at = at


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of an instance, and why."""

    after: Instance
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writes changes down."""

    event_publisher: Publisher

    async def write(
        self,
        hold: ReconcileContext,
        before: Instance,
        *steps: Transition,
        now: datetime,
        requeue_after: timedelta | None = None,
    ) -> Instance:
        """
        Replace *before* by the last of *steps* and tell of every phase on the way; answers the instance as written.

        Raises StaleError if another process changed it since it was read, and IllegalTransitionError if the lifecycle
        has no such change of phase; then nothing was written.
        """
        wake_at = None if requeue_after is None else now + requeue_after
        befores = (before, *(step.after for step in steps))
        for old, step in zip(befores, steps, strict=False):
            check_transition(old, step.after)
        moves = [(old, step) for old, step in zip(befores, steps, strict=False) if _is_told(old, step.after)]
        update = instances.update(steps[-1].after, wake_at=wake_at)
        if not moves:  # one statement is a transaction by itself
            if not await update.run(hold.connection):
                raise instances.stale(before)
            hold.wake_at = wake_at
            return instances.updated(steps[-1].after)
        # Whoever changes the operation changes the instance, too: if this write finds the instance as it was read, its
        # operation is as it was read with it.
        operation, following, changes = _following(moves, hold.operation, now, if_=update.name)
        if not await self.event_publisher.write(hold.connection, [update, *following], changes):
            raise instances.stale(before)
        hold.operation, hold.wake_at = operation, wake_at
        for change in changes:
            left, entered = (None if change.before is None else change.before.phase), change.after.phase
            if left is not entered:
                log.info("instance.phase_changed", old=left, new=entered, because=change.because)
        return instances.updated(steps[-1].after)


def _following(
    moves: Sequence[tuple[Instance, Transition]], operation: Operation | None, now: datetime, *, if_: str
) -> tuple[Operation | None, list[Write], list[Change]]:
    """Their operation after *moves*; what is to be written with them, if *if_* is; and the news."""
    writes: list[Write] = []
    changes: list[Change] = []
    latest = operation
    for old, step in moves:
        progress = None
        if latest is not None:
            earlier, latest = latest, advanced(latest, step.after, now)
            progress = Progress(before=earlier, after=latest)
            is_over = latest.status is OperationStatus.COMPLETED and earlier.status is not latest.status
            if is_over and latest.stamps.get("ready") == now:
                writes.append(ready_times.add(step.after.request.product_name, latest, if_=if_))
        changes.append(Change(before=old, after=step.after, because=step.because, at=now, progress=progress))
    if latest is not None and latest is not operation:
        writes.append(operations.update(latest, if_=if_))
    return latest, writes, changes


def _is_told(before: Instance, after: Instance) -> bool:
    """Whether a change is worth an event: another phase, news of what was asked, a reclaim notice, a new wait."""
    return (
        before.phase is not after.phase
        or before.pending.action is not after.pending.action
        or before.pending.refused != after.pending.refused
        or before.announced_spot != after.announced_spot
        or starts_to_wait(before, after)
    )
