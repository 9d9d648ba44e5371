"""The outbox of an event environment, emptied by hand: one run of the job at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from corral.base.metrics import Metrics
from corral.engine.events.publisher import SEND_WEBHOOK
from corral.engine.events.webhook_sender import WebhookSender
from corral.jobs.registry import JobId, JobRun, RequeueError
from corral.webhooks.deliver import Sender
from corral.webhooks.guard import AddressGuard
from corral.webhooks.sign import signing_key
from support.engines.describer import a_describer
from support.engines.event_env import EventEnv
from support.engines.runtime import unopened_sender

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def outbox(room: EventEnv, sender: Sender | None = None) -> WebhookSender:
    """The outbox as one process has it; without a *sender* no job of it may run."""
    return WebhookSender(
        database=room.database,
        queue=room.queue,
        sender=sender or unopened_sender(room.clock),
        describer=a_describer(room.database, room.clock),
        clock=room.clock,
        metrics=Metrics(),
        jitter=lambda: 0.5,
    )


@asynccontextmanager
async def sending(room: EventEnv, *, timeout_ms: int = 5000) -> AsyncGenerator[WebhookSender]:
    """The outbox of a worker that may send to this machine."""
    guard = AddressGuard(clock=room.clock, allow_private=True)
    key = signing_key(SECRET)
    async with Sender.open(clock=room.clock, guard=guard, timeout_ms=timeout_ms, key=key) as sender:
        yield outbox(room, sender)


async def sent(deliveries: WebhookSender, instance_id: str = "inst_a1") -> timedelta | None:
    """Run the job once; answers how long it asks to wait, None when it is done."""
    run = JobRun(id=JobId(1), type=SEND_WEBHOOK, payload={"instanceId": instance_id}, attempt=1)
    try:
        await deliveries.send(run)
    except RequeueError as later:
        return later.after
    return None


async def run_out(deliveries: WebhookSender, advance: Callable[[float], object], instance_id: str = "inst_a1") -> int:
    """Run the job until it is done, letting the time it asks for pass; answers how often it ran."""
    for runs in range(1, 50):
        wait = await sent(deliveries, instance_id)
        if wait is None:
            return runs
        advance(wait.total_seconds())
    raise AssertionError("the job never ends")
