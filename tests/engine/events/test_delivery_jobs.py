"""The outbox as workers empty it by themselves, and as it is kept small."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.engines.event_env import UP, EventEnv
from support.engines.outbox import SECRET, outbox, sending, sent
from support.http.receiver import Receiver

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.domain.events import Change
from corral.engine.events.publisher import SEND_WEBHOOK, EventPublisher
from corral.engine.maintenance.retention import sweep_deliveries
from corral.jobs.queue import JobQueue, JobStatus
from corral.jobs.registry import JobId, JobRun, Registry
from corral.jobs.worker import Worker
from corral.store.session.database import Database
from corral.webhooks.deliver import Sender
from corral.webhooks.guard import AddressGuard
from corral.webhooks.sign import signing_key

INSTANCES = [f"n{number}" for number in range(12)]


async def test_workers_deliver_everything_in_order(database: Database) -> None:
    """Two workers, many instances, no polling: every receiver gets every event once and in order."""
    clock = SystemClock()
    room = EventEnv(database, clock)
    registry = Registry()
    queue = JobQueue(database, registry)
    guard = AddressGuard(clock=clock, allow_private=True)
    async with (
        Receiver().serving() as receiver,
        Sender.open(clock=clock, guard=guard, timeout_ms=5000, key=signing_key(SECRET)) as sender,
    ):
        registry.add(outbox(room, sender).job_type())
        room.event_publisher = EventPublisher(queue)
        workers = [
            Worker(
                database,
                registry,
                queue,
                clock=clock,
                metrics=Metrics(),
                concurrency=3,
                dequeue_timeout=timedelta(seconds=30),
            )
            for _ in range(2)
        ]
        tasks = [asyncio.create_task(worker.run()) for worker in workers]

        made = await room.create(*INSTANCES, url=receiver.url)
        await asyncio.gather(*(room.move(instance, *UP) for instance in made))

        await until(lambda: len(receiver.messages) == len(INSTANCES) * 5)
        for worker in workers:
            await worker.stop()
        await asyncio.gather(*tasks)

    stories: dict[str, list[str]] = {}
    for message in receiver.messages:
        stories.setdefault(message.json["instanceId"], []).append(message.json["status"])
    assert stories == {f"inst_{name}": ["creating", *UP] for name in INSTANCES}
    assert (await queue.stats()).by_status[JobStatus.FAILED] == 0


async def test_a_rolled_back_change_is_not_sent(database: Database) -> None:
    """The outbox and the job belong to the transaction of the change."""
    room = EventEnv(database, SteppedClock())
    lost = room.fresh("lost", url="http://127.0.0.1:1/")
    with pytest.raises(RuntimeError, match="changed my mind"):
        async with database.transaction() as connection:
            await room.event_publisher.publish(
                connection, [Change(before=None, after=lost, because="requested", at=room.clock.now())]
            )
            raise RuntimeError("changed my mind")

    assert (
        await outbox(room).page(instance_id=None, status=None, limit=9, offset=0),
        await room.jobs_waiting(),
    ) == (
        ([], 0),
        0,
    )


async def test_deliveries_are_kept_for_a_month_after_their_end(database: Database) -> None:
    """Pending deliveries are kept, and queued again if no job exists; events are kept permanently."""
    clock = SteppedClock()
    room = EventEnv(database, clock)
    job = sweep_deliveries(database, room.queue, clock)
    run = JobRun(id=JobId(1), type=job.name, payload={}, attempt=1)
    async with Receiver(204, 500).serving() as receiver, sending(room) as deliveries:
        await room.create("a1", "b2", url=receiver.url)
        await sent(deliveries, "inst_a1")
        await sent(deliveries, "inst_b2")

        async def kept() -> list[str | None]:
            found, _ = await deliveries.page(instance_id=None, status=None, limit=9, offset=0)
            return [delivery.instance_id for delivery in found]

        clock.advance(timedelta(days=30).total_seconds())
        before = await room.jobs_waiting()
        await job.handler(run)
        assert await kept() == ["inst_b2", "inst_a1"]
        clock.advance(1)
        await job.handler(run)
        assert await kept() == ["inst_b2"]

    assert await room.jobs_waiting() == before + 1
    (waiting, *_) = await room.queue.find(type=SEND_WEBHOOK)
    assert waiting.payload == {"instanceId": "inst_b2"}
    assert len(await room.log.page(after=0, limit=10)) == 2
