"""
Records events in the transaction of their change: the log, the outbox of webhooks, and the job that sends them.

`CHANGED`, which is no event of the contract, is written to the log only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Protocol

from corral.base.metrics import Metrics
from corral.domain.delivery import is_sent
from corral.domain.events import Change, EventDraft, FleetEvent, Progress, event_drafts
from corral.domain.operation import Operation, OperationStatus
from corral.engine.payloads import host_of
from corral.jobs.queue import JobQueue, NewJob
from corral.store.session.database import Connection, Database, ensure_transaction
from corral.store.sql.combined_statement import Write, run_combined
from corral.store.tables import deliveries, events, operations
from corral.store.tables.deliveries import NewDelivery, Snapshot

_EVENT_ROWS: Final = "SELECT ARRAY(SELECT id FROM new_events ORDER BY id) AS rows"

SEND_WEBHOOK: Final = "send_webhook"
"""The job type that sends what is pending for one subject; its payload names it."""


def send_job(subject: str, host: str) -> NewJob:
    """
    The job that sends the webhooks of one instance, or of another *subject*; the host is shown in the list of jobs.

    It has no deduplication key: a job that is just ending would suppress it, and the new delivery would not be sent.
    """
    return NewJob(type=SEND_WEBHOOK, payload={"instanceId": subject, "webhookHost": host})


class Writer(Protocol):
    """Runs writes in transactions that others share."""

    @property
    def database(self) -> Database:
        """Where it writes."""
        ...

    async def run(self, writes: Sequence[Write], answer: str) -> Any:
        """Run *writes* as one statement; returns the row that the query *answer* selects from what they returned."""
        ...


class EventPublisher:
    """Writes events, and the deliveries of those that have a webhook address."""

    def __init__(
        self, queue: JobQueue, *, default_webhook_url: str | None = None, metrics: Metrics | None = None
    ) -> None:
        self._queue = queue
        self._metrics = metrics or Metrics()
        self._default_url = default_webhook_url

    async def publish(self, connection: Connection, changes: Sequence[Change]) -> None:
        """
        Record the events of *changes*, in the transaction that made the changes and after it wrote them.

        Sends one statement a table, for any number of changes.
        """
        drafts = event_drafts(changes)
        if not drafts:
            return
        rows = sorted(row["id"] for row in await events.append(drafts).run(connection))
        _count(self._metrics, changes, drafts)
        await self._post(connection, rows, drafts)

    async def publish_of_fleet(self, connection: Connection, found: Sequence[FleetEvent]) -> None:
        """Record events that are not about one instance, in the transaction that recorded their cause."""
        if not found:
            return
        rows = sorted(row["id"] for row in await events.append_of_fleet(found).run(connection))
        for event_type, times in Counter(each.type for each in found).items():
            self._metrics.events.labels(event_type).inc(times)
        url = self._default_url
        if url is not None:
            outgoing = [
                NewDelivery(event_row=row, subject=each.subject, url=url, host=host_of(url), at=each.at, snapshot=None)
                for row, each in zip(rows, found, strict=True)
            ]
            await self._send(connection, outgoing)

    async def write(self, connection: Connection, writes: Sequence[Write], changes: Sequence[Change]) -> bool:
        """
        Run *writes* and record the events of *changes*, at least one, in one transaction.

        Returns False, with nothing written, when the first write returns no row. Without a webhook address it takes one
        round trip.
        """
        drafts = event_drafts(changes)
        parts = [*writes, events.append(drafts, if_=writes[0].name)]
        if not any(self._url(draft) for draft in drafts):
            rows = (await run_combined(connection, parts, _EVENT_ROWS))["rows"]
        else:
            async with ensure_transaction(connection):
                rows = (await run_combined(connection, parts, _EVENT_ROWS))["rows"]
                if rows:
                    await self._post(connection, rows, drafts)
        if rows:
            _count(self._metrics, changes, drafts)
        return bool(rows)

    async def write_grouped(self, writer: Writer, writes: Sequence[Write], changes: Sequence[Change]) -> bool:
        """As `write`, by *writer*; only with a webhook address in a transaction of its own."""
        drafts = event_drafts(changes)
        if any(self._url(draft) for draft in drafts):
            async with writer.database.connection() as connection:
                return await self.write(connection, writes, changes)
        parts = [*writes, events.append(drafts, if_=writes[0].name)]
        is_written = bool((await writer.run(parts, _EVENT_ROWS))["rows"])
        if is_written:
            _count(self._metrics, changes, drafts)
        return is_written

    async def _post(self, connection: Connection, rows: Sequence[int], drafts: Sequence[EventDraft]) -> None:
        """Add deliveries for the events that have a webhook address."""
        addressed = [
            (row, draft.change, url) for row, draft in zip(rows, drafts, strict=True) if (url := self._url(draft))
        ]
        if not addressed:
            return
        found = await _operations(connection, [change for _, change, _ in addressed])
        outgoing = [
            NewDelivery(
                event_row=row,
                subject=change.after.id,
                url=url,
                host=host_of(url),
                at=change.at,
                snapshot=Snapshot.of(change.after, operation),
            )
            for (row, change, url), operation in zip(addressed, found, strict=True)
        ]
        await self._send(connection, outgoing)

    async def _send(self, connection: Connection, outgoing: Sequence[NewDelivery]) -> None:
        """Add deliveries, and a job for each subject."""
        await deliveries.add(outgoing).run(connection)
        hosts = {out.subject: out.host for out in outgoing}
        await self._queue.add([send_job(subject, host) for subject, host in hosts.items()]).run(connection)

    def _url(self, draft: EventDraft) -> str | None:
        """The webhook address of an event; None if it is not sent."""
        address = draft.change.after.webhook_target or self._default_url
        return address if address is not None and is_sent(draft.type, address) else None


async def _operations(connection: Connection, changes: Sequence[Change]) -> list[Operation | None]:
    """The operation of each change, after it: the one given with the change, or the one this transaction recorded."""
    unknown = {change.after.operation_id for change in changes if change.progress is None}
    recorded = await operations.of_many(connection, list(unknown)) if unknown else {}
    return [
        recorded.get(change.after.operation_id) if change.progress is None else change.progress.after
        for change in changes
    ]


def _count(metrics: Metrics, changes: Sequence[Change], drafts: Sequence[EventDraft]) -> None:
    """
    Count *changes* and their events.

    This runs inside the transaction that writes them: changes that are lost at the commit are counted again when they
    are made again.
    """
    transitions = Counter(("" if c.before is None else c.before.phase, c.after.phase) for c in changes)
    for (before, after), times in transitions.items():
        if before != after:
            metrics.transitions.labels(before, after).inc(times)
    for event_type, times in Counter(draft.type for draft in drafts).items():
        metrics.events.labels(event_type).inc(times)
    for change in changes:
        if change.progress is not None:
            _count_ready(metrics, change.progress)


def _count_ready(metrics: Metrics, progress: Progress) -> None:
    """Observe the duration of an operation that has just made its instance ready."""
    before, after = progress.before, progress.after
    ready, ran = after.stamps.get("ready"), after.stamps.get("instanceRunning")
    is_new = before is not None and before.status is not after.status
    if ready is None or not is_new or after.status is not OperationStatus.COMPLETED:
        return
    metrics.ready_seconds.labels(after.kind.value).observe((ready - after.created_at).total_seconds())
    if ran is not None:
        metrics.ready_lag_seconds.labels(after.kind.value).observe((ready - ran).total_seconds())
