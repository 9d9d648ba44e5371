"""
Telling of changes, in the transaction of the change itself: the log, the outbox, and the job that empties it.

All three are there if and only if the change is. `CHANGED`, which has no name in the contract, is in the log alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.base.metrics import Metrics
from corral.domain.events import Change, EventDraft, EventType, event_drafts
from corral.domain.instance import InstanceId
from corral.domain.operation import Operation
from corral.engine.events import metrics
from corral.engine.payloads import host_of
from corral.jobs.queue import JobQueue, NewJob
from corral.store.session.database import Connection, ensure_transaction
from corral.store.sql.combined_statement import Write, run_combined
from corral.store.tables import deliveries, events, operations
from corral.store.tables.deliveries import NewDelivery, Snapshot

_TOLD: Final = "SELECT ARRAY(SELECT id FROM new_events ORDER BY id) AS rows"

SEND_WEBHOOK: Final = "send_webhook"
"""The job type that sends what is pending for one instance; its payload names the instance."""


def send_job(instance_id: InstanceId, host: str) -> NewJob:
    """
    The job that sends for one instance; the host is for people who look at jobs.

    It has no `only_one` key: one that is just ending would swallow it, and with it the wake-up.
    """
    return NewJob(type=SEND_WEBHOOK, payload={"instanceId": instance_id, "webhookHost": host})


class EventPublisher:
    """Who is told what."""

    def __init__(
        self, queue: JobQueue, *, default_webhook_url: str | None = None, metrics: Metrics | None = None
    ) -> None:
        self._queue = queue
        self._metrics = metrics or Metrics()
        self._default_url = default_webhook_url

    async def publish(self, connection: Connection, changes: Sequence[Change]) -> None:
        """
        Record that *changes* happened, within the transaction that made them and after it wrote them.

        One statement a table, however many there are.
        """
        told = event_drafts(changes)
        if not told:
            return
        rows = sorted(row["id"] for row in await events.append(told).run(connection))
        metrics.count(self._metrics, changes, told)
        await self._post(connection, rows, told)

    async def write(self, connection: Connection, writes: Sequence[Write], changes: Sequence[Change]) -> bool:
        """
        Make *writes* and tell of *changes*, of which there must be some: all of it, in one transaction.

        Answers False, and has done nothing, when the first write returns nothing. Unless somebody is to be sent a
        message it takes one round trip.
        """
        told = event_drafts(changes)
        if_ = writes[0].name
        parts = [*writes, events.append(told, if_=if_)]
        if not any(self._url(one) for one in told):
            rows = (await run_combined(connection, parts, _TOLD))["rows"]
        else:
            async with ensure_transaction(connection):
                rows = (await run_combined(connection, parts, _TOLD))["rows"]
                if rows:
                    await self._post(connection, rows, told)
        if rows:
            metrics.count(self._metrics, changes, told)
        return bool(rows)

    async def _post(self, connection: Connection, rows: Sequence[int], told: Sequence[EventDraft]) -> None:
        """Put what was told of into the outbox of those who are to be told."""
        addressed = [(row, one.change, url) for row, one in zip(rows, told, strict=True) if (url := self._url(one))]
        if not addressed:
            return
        asked = await _operations(connection, [change for _, change, _ in addressed])
        outgoing = [
            NewDelivery(
                event_row=row,
                instance_id=change.after.id,
                url=url,
                host=host_of(url),
                at=change.at,
                snapshot=Snapshot.of(change.after, operation),
            )
            for (row, change, url), operation in zip(addressed, asked, strict=True)
        ]
        await deliveries.add(outgoing).run(connection)
        hosts = {out.instance_id: out.host for out in outgoing}
        await self._queue.add([send_job(instance_id, host) for instance_id, host in hosts.items()]).run(connection)

    def _url(self, told: EventDraft) -> str | None:
        """Where a message about it goes."""
        return None if told.type is EventType.CHANGED else told.change.after.webhook_target or self._default_url


async def _operations(connection: Connection, changes: Sequence[Change]) -> list[Operation | None]:
    """The operation of each change, as it was after it: given with the change, or as this transaction recorded it."""
    unknown = {change.after.operation_id for change in changes if change.progress is None}
    recorded = await operations.of_many(connection, list(unknown)) if unknown else {}
    return [
        recorded.get(change.after.operation_id) if change.progress is None else change.progress.after
        for change in changes
    ]
