"""
Sends the outbox of webhooks, in order for each subject: an instance, or what else an event is about.

A job sends the pending deliveries of one subject, oldest first; a later one waits until the one before it is delivered
or given up. An advisory lock lets one worker at a time send for a subject. No transaction is open during a request.

A message is sent again only if this process ends between the receiver's 2xx and the record of it. Every attempt has the
event's id as `webhook-id` and the same bytes, so a receiver that stores ids processes each event once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from corral.base.clock import Clock
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.base.tracing import tracing
from corral.domain.audit import AuditEntry
from corral.domain.delivery import Delivery, DeliveryId, DeliveryStatus, WebhookFormat, receiver_parts
from corral.domain.errors import NotFoundError
from corral.domain.operation import InstanceWithOperation
from corral.engine.events.publisher import SEND_WEBHOOK, send_job
from corral.engine.queries.instances import InstanceDescriber, load_known
from corral.jobs.queue import JobQueue
from corral.jobs.registry import TRACEPARENT, JobPool, JobRun, JobType, RequeueError
from corral.store.session.database import Connection, Database
from corral.store.tables import deliveries, events
from corral.store.tables.callers import audit
from corral.store.tables.deliveries import Pending
from corral.views.chat.discord import discord_body
from corral.views.chat.message import chat_message
from corral.views.chat.slack import slack_body
from corral.views.event import event_details, webhook_body
from corral.views.schemas import InstanceDetails
from corral.webhooks.deliver import Attempt, Sender
from corral.webhooks.pauses import ReceiverPauses
from corral.webhooks.schedule import AttemptOutcome, next_delay
from corral.webhooks.slots import SendSlots, Slot, SlotsTakenError

BUSY_PAUSE = timedelta(seconds=1)
"""Another worker sends for the subject and most likely sends this delivery too; requeued in case it was ending."""

AFTER_PAUSE_SECONDS = 5.0
"""
Over so many seconds the messages come back that waited while their receiver had asked for a pause. Fewer, and all come
at once, for which most receivers ask for another pause; more only delays the last ones.
"""

_ENDS = {
    AttemptOutcome.DELIVERED: DeliveryStatus.DELIVERED,
    AttemptOutcome.STOP: DeliveryStatus.STOPPED,
    AttemptOutcome.FINAL: DeliveryStatus.FAILED,
    AttemptOutcome.RETRY: DeliveryStatus.FAILED,
}


@dataclass(slots=True, kw_only=True)
class WebhookSender:
    """Sends and lists deliveries; *jitter* in [0, 1) varies the pauses between attempts."""

    database: Database
    queue: JobQueue
    sender: Sender
    describer: InstanceDescriber
    clock: Clock
    metrics: Metrics
    jitter: Callable[[], float]
    _slots: SendSlots = field(init=False)
    _pauses: ReceiverPauses = field(init=False)

    def __post_init__(self) -> None:
        self._slots = SendSlots(self.clock)
        self._pauses = ReceiverPauses(self.clock)
        for outcome in AttemptOutcome:
            self.metrics.webhook_attempts.labels(outcome)

    def job_type(self) -> JobType:
        """The job type that sends; a failing receiver does not fail the job."""
        return JobType(name=SEND_WEBHOOK, handler=self.send, pool=JobPool.WEBHOOKS)

    async def send(self, run: JobRun) -> None:
        """Send what is pending for the subject that the job names; raises RequeueError while some of it must wait."""
        subject = str(run.payload["instanceId"])
        caused_by = run.payload.get(TRACEPARENT)
        with tracing.under(caused_by if isinstance(caused_by, str) else None):
            while (url := await self._next_url(subject)) is not None:
                try:
                    async with self._slots.slot(await self.sender.target(url)) as slot:
                        await self._send_to(url, subject, slot)
                except SlotsTakenError as busy:
                    raise RequeueError(busy.pause, str(busy)) from busy

    async def _next_url(self, subject: str) -> str | None:
        """
        Where the next message of the subject goes; None when nothing is pending.

        Asked before a slot is taken, on a connection that is returned at once: a message that waits for its turn holds
        nothing. Raises RequeueError while the message must wait.
        """
        async with self.database.connection() as connection:
            pending = await self._pending(connection, subject)
        return None if pending is None else pending.url

    async def _send_to(self, url: str, subject: str, slot: Slot) -> None:
        """Send what is pending for the subject, as long as it goes to *url*."""
        async with self.database.connection() as connection, deliveries.sole_sender(connection, subject) as alone:
            if not alone:
                raise RequeueError(BUSY_PAUSE, "another worker sends for this subject")
            while (pending := await self._pending(connection, subject)) is not None and pending.url == url:
                await self._send(connection, subject, pending, slot)

    async def _pending(self, connection: Connection, subject: str) -> Pending | None:
        """The message that must be sent next; raises RequeueError while it must wait."""
        pending = await deliveries.oldest(connection, subject)
        while pending is not None and pending.silenced:
            await deliveries.stop_silenced(connection, subject, self.clock.now())
            pending = await deliveries.oldest(connection, subject)
        if pending is None:
            return None
        wait = pending.next_at - self.clock.now()
        if wait > timedelta(0):
            raise RequeueError(wait, "its receiver did not take the last message yet")
        wait = self._pauses.left(pending.url)
        if wait > timedelta(0):
            later = timedelta(seconds=AFTER_PAUSE_SECONDS * self.jitter())
            raise RequeueError(wait + later, "its receiver asked for a pause")
        return pending

    async def redeliver(self, delivery_id: DeliveryId, line: AuditEntry) -> Delivery:
        """
        Make a delivery pending again, in any state, with all its tries; raises NotFoundError.

        *line* is written to the audit log in the same transaction.
        """
        async with self.database.transaction() as connection:
            if not await deliveries.redeliver(connection, delivery_id, self.clock.now()):
                raise NotFoundError(
                    f"there is no delivery dlv_{delivery_id}; they are kept for 30 days after their end"
                )
            (found,), _ = await deliveries.page(connection, delivery_id=delivery_id)
            await self.queue.add([send_job(found.subject, found.host)]).run(connection)
            await audit.append([line if found.instance_id is None else line.about(found.instance_id)]).run(connection)
        return found

    async def page(
        self, *, instance_id: str | None, status: DeliveryStatus | None, limit: int, offset: int
    ) -> tuple[list[Delivery], int]:
        """Deliveries, newest first, and the total."""
        async with self.database.connection() as connection:
            return await deliveries.page(connection, instance_id=instance_id, status=status, limit=limit, offset=offset)

    async def _send(self, connection: Connection, subject: str, pending: Pending, slot: Slot) -> None:
        """Make one attempt and record it."""
        body = pending.body
        if body is None:
            body = await self._compose(connection, subject, pending)
            await deliveries.keep_body(connection, pending.id, body)
        slot.begin()
        attempt = await self.sender.send(pending.url, body, message_id=pending.event_id)
        slot.end(answered=attempt.http_status is not None or attempt.outcome is AttemptOutcome.FINAL)
        self._pauses.learn(pending.url, attempt.http_status, attempt.retry_after)
        pause = None
        if attempt.outcome is AttemptOutcome.RETRY:
            pause = next_delay(pending.tries + 1, jitter=self.jitter(), retry_after=attempt.retry_after)
        status = _ENDS[attempt.outcome] if pause is None else DeliveryStatus.PENDING
        next_at = self.clock.now() + (pause or timedelta(0))
        await deliveries.record(connection, pending.id, attempt, status=status, next_at=next_at)
        self._report(subject, pending, attempt, status)

    async def _compose(self, connection: Connection, subject: str, pending: Pending) -> bytes:
        """The body: the event, and the instance as it was then, in the format of the receiver."""
        event = await events.one(connection, pending.event_row)
        instance: InstanceDetails | None = None
        if pending.snapshot is not None:
            then = InstanceWithOperation(instance=pending.snapshot.instance, operation=pending.snapshot.operation)
            instance = await self.describer.details(then, at=event.at)
        else:  # not about an instance; or of an earlier release, without a snapshot: the instance as it is now
            known = await load_known(connection, subject)
            instance = None if known is None else await self.describer.details(known)
        details = event_details(event, self.describer.view.ready_word)
        match receiver_parts(pending.url)[0]:
            case WebhookFormat.STANDARD:
                return webhook_body(details, instance)
            case WebhookFormat.SLACK:
                return slack_body(chat_message(details, instance))
            case WebhookFormat.DISCORD:
                return discord_body(chat_message(details, instance))

    def _report(self, subject: str, pending: Pending, attempt: Attempt, status: DeliveryStatus) -> None:
        self.metrics.webhook_attempts.labels(attempt.outcome.value).inc()
        self.metrics.webhook_seconds.observe(attempt.duration_ms / 1000)
        facts = {"instance_id": subject, "delivery_id": f"dlv_{pending.id}", "tries": pending.tries + 1}
        if status is DeliveryStatus.DELIVERED:
            log.debug("webhook.delivered", **facts)
        elif status is DeliveryStatus.PENDING:
            log.info("webhook.retried", reason=attempt.error, **facts)
        else:
            log.warning("webhook.given_up", reason=attempt.error, status=status.value, **facts)
