"""Writing a change of an instance down: its row, its operation, its event and its follow-ups, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from corral.domain.events import Change, Progress
from corral.domain.instance import Instance
from corral.domain.operation import OperationStatus, advanced
from corral.store import instances, operations, ready_times
from corral.store.database import Connection
from corral.telemetry import log


class News(Protocol):
    """Who tells of changes."""

    async def tell(self, connection: Connection, changes: Sequence[Change]) -> None:
        """Record that *changes* happened, within the transaction that made them."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """One change of an instance, and why."""

    after: Instance
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writes changes down."""

    news: News

    async def write(
        self,
        connection: Connection,
        before: Instance,
        *steps: Step,
        now: datetime,
        look_again: timedelta | None = None,
    ) -> Instance:
        """
        Replace *before* by the last of *steps* and tell of every phase on the way; answers the instance as written.

        Raises StaleError, and has written nothing, when somebody else changed it since it was read.
        """
        look_at = None if look_again is None else now + look_again
        befores = (before, *(step.after for step in steps))
        moves = [(old, step) for old, step in zip(befores, steps, strict=False) if _is_told(old, step.after)]
        if not moves:  # one statement is a transaction by itself
            return await instances.write(connection, steps[-1].after, look_at=look_at)
        async with connection.transaction():
            written = await instances.write(connection, steps[-1].after, look_at=look_at)
            await self._follow(connection, moves, now)
        return written

    async def _follow(self, connection: Connection, moves: Sequence[tuple[Instance, Step]], now: datetime) -> None:
        """Bring the operation along, learn, and tell."""
        before = moves[0][0]
        operation = await operations.load(connection, before.operation_id)
        changes: list[Change] = []
        latest = operation
        for old, step in moves:
            if step.after.phase is not old.phase:
                log.info("instance.phase_changed", old=old.phase, new=step.after.phase, because=step.because)
            progress = None
            if latest is not None:
                moved = advanced(latest, step.after, now)
                progress, latest = Progress(before=latest, after=moved), moved
                if moved.status is OperationStatus.COMPLETED and moved.stamps.get("ready") == now:
                    await ready_times.remember(connection, step.after.order.product_name, moved)
            changes.append(Change(before=old, after=step.after, because=step.because, at=now, progress=progress))
        if latest is not None and latest is not operation:
            await operations.write(connection, latest)
        await self.news.tell(connection, changes)


def _is_told(before: Instance, after: Instance) -> bool:
    """Whether a change is worth an event: another phase, or news of what is owed."""
    return (before.phase, before.owed, before.refused) != (after.phase, after.owed, after.refused)
