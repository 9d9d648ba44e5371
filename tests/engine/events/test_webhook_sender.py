"""Each change is delivered once, in order, to untrusted receivers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from standardwebhooks import Webhook
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.engines.audit_lines import LINE
from support.engines.event_env import UP, EventEnv
from support.engines.outbox import SECRET, run_out, sending, sent
from support.http.receiver import Receiver
from support.http.servers import serving

from corral.base.clock import SystemClock
from corral.domain.delivery import Delivery, DeliveryId, DeliveryStatus
from corral.domain.errors import Failure, NotFoundError, StoreUnavailableError
from corral.domain.events import EventType, FleetEvent
from corral.domain.health.checks import HealthReport
from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import Phase
from corral.engine.events.webhook_sender import BUSY_PAUSE, WebhookSender
from corral.store.session.database import Database
from corral.webhooks.schedule import MOST_TRIES
from corral.webhooks.slots import NEW_SHARE, RETURN_SPACING_SECONDS, SLOW_PAUSE, SLOW_SECONDS

EVENTS = ["created", "starting", "running", "health_checking", "ready"]


async def risen(room: EventEnv, url: str, *names: str) -> list[Instance]:
    """Instances that became ready before any delivery was sent."""
    return [await room.move(instance, *UP) for instance in await room.create(*(names or ("a1",)), url=url)]


async def listed(deliveries: WebhookSender) -> list[Delivery]:
    """All deliveries, oldest first."""
    found, total = await deliveries.page(instance_id=None, status=None, limit=500, offset=0)
    assert len(found) == total
    return found[::-1]


async def test_each_change_is_announced_once_and_in_order(room: EventEnv, deliveries: WebhookSender) -> None:
    """However often the job runs: what is recorded as delivered is not sent again."""
    async with Receiver().serving() as receiver:
        await risen(room, receiver.url)
        assert await room.jobs_waiting() == 5
        for _ in range(5):
            assert await sent(deliveries) is None

    assert receiver.events == EVENTS
    assert [m.json["seq"] for m in receiver.messages] == [1, 2, 3, 4, 5]
    assert {d.status for d in await listed(deliveries)} == {DeliveryStatus.DELIVERED}
    assert [d.attempts for d in await listed(deliveries)] == [1] * 5


async def test_a_message_is_what_the_contract_says(room: EventEnv, deliveries: WebhookSender) -> None:
    """And the official library takes it."""
    async with Receiver().serving() as receiver:
        (instance,) = await room.create("a1", url=receiver.url)
        now = room.clock.now()
        report = HealthReport(endpoints=(), first_checked_at=now, last_checked_at=now, checks=1)
        instance = replace(instance, health=report, labels=(("team", "vision"),))
        await room.move(instance, Phase.FAILED, failure=Failure(code="STARTUP_TIMEOUT", message="too slow"))
        await sent(deliveries)
    created, failed = receiver.messages
    (event,) = await room.log.page(after=1, limit=1)

    assert " ".join(failed.json) == (
        "id seq event instanceId novitaInstanceId status previousStatus timestamp elapsedTime operationId reason"
        " labels error healthCheck instance data"
    )
    assert failed.json["error"] == {"code": "STARTUP_TIMEOUT", "message": "too slow"}
    assert (failed.json["event"], failed.json["previousStatus"]) == ("instance.timeout", "creating")
    shown = failed.json["instance"]
    assert (shown["id"], shown["status"], shown["operation"]["operationId"]) == ("inst_a1", "failed", "op_a1")
    assert failed.json["healthCheck"] == shown["healthCheck"]
    assert failed.json["labels"] == shown["labels"] == {"team": "vision"}
    assert (shown["healthCheck"]["overallStatus"], shown["healthCheck"]["checks"]) == ("healthy", 1)
    assert failed.id == failed.json["id"] == event.id
    assert {"error", "healthCheck"}.isdisjoint(created.json)
    stamp = SystemClock().now()
    headers = {"webhook-id": failed.id, "webhook-timestamp": str(int(stamp.timestamp()))}
    headers["webhook-signature"] = Webhook(SECRET).sign(failed.id, stamp, failed.body.decode())
    assert Webhook(SECRET).verify(failed.body, headers) == failed.json


async def test_a_receiver_that_fails_gets_the_same_message_again_later(
    room: EventEnv, deliveries: WebhookSender, clock: SteppedClock
) -> None:
    """The same bytes under the same id, although the instance went on; later events wait behind it."""
    async with Receiver(500, 503, 200).serving() as receiver:
        (instance,) = await room.create("a1", url=receiver.url)
        assert await sent(deliveries) == timedelta(seconds=5)
        await room.move(instance, *UP)
        assert await sent(deliveries) == timedelta(seconds=5)
        clock.advance(5)
        assert await sent(deliveries) == timedelta(seconds=15)
        clock.advance(15)
        assert await sent(deliveries) is None

    assert receiver.events == ["created", "created", *EVENTS]
    assert len({(m.id, m.body) for m in receiver.messages[:3]}) == 1
    first = (await listed(deliveries))[0]
    assert (first.status, first.attempts, first.next_at) == (DeliveryStatus.DELIVERED, 3, None)
    assert [(a.http_status, a.outcome) for a in first.history] == [(200, "delivered"), (503, "retry"), (500, "retry")]
    assert first.history[1].error == "service_unavailable: answered with status 503"


async def test_the_instance_in_a_message_is_the_one_of_its_event(
    room: EventEnv, deliveries: WebhookSender, database: Database
) -> None:
    """However late it is sent: a receiver that was away reads what happened in order, each with its own picture."""
    async with Receiver().serving() as receiver:
        await risen(room, receiver.url)
        await sent(deliveries)

    assert [m.json["instance"]["status"] for m in receiver.messages] == [m.json["status"] for m in receiver.messages]
    assert [m.json["instance"]["operation"]["operationId"] for m in receiver.messages] == ["op_a1"] * 5
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(snapshot) FROM corral_deliveries") == 0


async def test_a_delivery_of_an_earlier_release_is_sent_with_the_instance_as_it_is(
    room: EventEnv, deliveries: WebhookSender, database: Database
) -> None:
    """It kept no picture of its event."""
    async with Receiver().serving() as receiver:
        await risen(room, receiver.url)
        async with database.connection() as connection:
            await connection.execute("UPDATE corral_deliveries SET snapshot = NULL")
        await sent(deliveries)

    assert [m.json["instance"]["status"] for m in receiver.messages] == ["ready"] * 5


async def test_a_receiver_may_ask_for_patience(room: EventEnv, deliveries: WebhookSender) -> None:
    """Its Retry-After is longer than our pause, so it is obeyed."""
    async with Receiver(429, headers={"Retry-After": "120"}).serving() as receiver:
        await room.create("a1", url=receiver.url)

        assert await sent(deliveries) == timedelta(minutes=2)


async def test_after_the_last_attempt_the_next_delivery_is_sent(
    room: EventEnv, deliveries: WebhookSender, clock: SteppedClock
) -> None:
    """An undelivered message is given up after about an hour; later ones are not lost with it."""
    began = clock.now()
    async with Receiver(*[500] * MOST_TRIES, 200).serving() as receiver:
        await risen(room, receiver.url)
        await run_out(deliveries, clock.advance)

    assert receiver.events == ["created"] * MOST_TRIES + EVENTS[1:]
    assert [d.status.value for d in await listed(deliveries)] == ["failed", *["delivered"] * 4]
    assert timedelta(minutes=50) < clock.now() - began < timedelta(minutes=70)


async def test_a_refusal_is_final_for_its_message_alone(room: EventEnv, deliveries: WebhookSender) -> None:
    """No second try; the next event may be one it takes."""
    async with Receiver(400, 200).serving() as receiver:
        await risen(room, receiver.url)
        assert await sent(deliveries) is None

    assert receiver.events == EVENTS
    assert [d.status.value for d in await listed(deliveries)] == ["failed", *["delivered"] * 4]


async def test_a_receiver_that_is_gone_hears_no_more_of_the_instance(room: EventEnv, deliveries: WebhookSender) -> None:
    """Neither what is waiting nor what comes later; other instances are another matter."""
    async with Receiver(200, 410, 200).serving() as receiver:
        (instance, _) = await risen(room, receiver.url, "a1", "b2")
        await sent(deliveries)
        await room.move(instance, Phase.STOPPING, Phase.EXITED)
        assert await sent(deliveries) is None
        await sent(deliveries, "inst_b2")

    assert receiver.events == ["created", "starting", *EVENTS]
    of_a1 = [d for d in await listed(deliveries) if d.instance_id == "inst_a1"]
    assert [(d.status.value, d.attempts) for d in of_a1] == [
        ("delivered", 1),
        ("stopped", 1),
        *[("stopped", 0)] * 4,
    ]


async def test_a_redirect_is_tried_again_and_not_followed(room: EventEnv, deliveries: WebhookSender) -> None:
    """It would lead past the guard."""
    async with Receiver(307, headers={"Location": "http://127.0.0.1:1/"}).serving() as receiver:
        await room.create("a1", url=receiver.url)
        assert await sent(deliveries) == timedelta(seconds=5)

    assert len(receiver.messages) == 1
    assert [a.http_status for a in (await listed(deliveries))[0].history] == [307]


async def test_a_receiver_that_hangs_is_tried_again(room: EventEnv) -> None:
    """It costs its time-out and no more."""
    async with Receiver().serving() as receiver, sending(room, timeout_ms=100) as deliveries:
        receiver.open.clear()
        await room.create("a1", url=receiver.url)
        assert await sent(deliveries) == timedelta(seconds=5)

    (attempt,) = (await listed(deliveries))[0].history
    assert (attempt.http_status, attempt.error) == (None, "timeout: did not answer in time")


async def test_a_receiver_that_answers_twice_affects_no_other_delivery(
    room: EventEnv, deliveries: WebhookSender
) -> None:
    """What it says unasked is not taken for the answer to the next message."""
    heads: list[bytes] = []

    async def answer_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            heads.append(head)
            length = next(int(line.split(b":")[1]) for line in head.splitlines() if line.startswith(b"Content-Length:"))
            await reader.readexactly(length)
            good = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            writer.write(good + b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()

    async with serving(answer_twice) as port:
        await risen(room, f"http://127.0.0.1:{port}/")
        assert await sent(deliveries) is None

    assert len(heads) == 5
    assert {d.status for d in await listed(deliveries)} == {DeliveryStatus.DELIVERED}


async def test_two_workers_never_send_for_one_instance_at_once(room: EventEnv, deliveries: WebhookSender) -> None:
    """The second leaves it to the first, and looks again."""
    async with Receiver().serving() as receiver:
        receiver.open.clear()
        await risen(room, receiver.url)
        first = asyncio.create_task(sent(deliveries))
        await until(lambda: receiver.messages)
        assert [await sent(deliveries) for _ in range(3)] == [BUSY_PAUSE] * 3
        receiver.open.set()
        assert await first is None

    assert receiver.events == EVENTS


async def test_no_transaction_is_open_while_a_receiver_answers(
    room: EventEnv, deliveries: WebhookSender, database: Database
) -> None:
    """A slow receiver must not hold our rows."""
    open_ones: list[int] = []

    async def look() -> None:
        async with database.connection() as connection:
            open_ones.append(
                await connection.fetchval(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND state LIKE 'idle in transaction%'"
                )
            )

    async with Receiver().serving() as receiver:
        receiver.on_message = look
        await risen(room, receiver.url)
        await sent(deliveries)

    assert open_ones == [0] * 5


async def test_a_sender_that_dies_before_recording_sends_the_same_again(
    room: EventEnv, deliveries: WebhookSender, database: Database
) -> None:
    """The one case of a second delivery: the receiver has it, our record is lost. The id shows that."""

    async def lose_memory() -> None:
        receiver.on_message = None
        async with database.connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    async with Receiver().serving() as receiver:
        await risen(room, receiver.url)
        receiver.on_message = lose_memory
        with pytest.raises(StoreUnavailableError):
            await sent(deliveries)
        assert await sent(deliveries) is None

    assert receiver.events == ["created", *EVENTS]
    assert len({(m.id, m.body) for m in receiver.messages[:2]}) == 1


async def test_a_receiver_that_hangs_leaves_slots_for_the_others(room: EventEnv, clock: SteppedClock) -> None:
    """Two messages wait for its answer; the next job comes back later and holds no database connection meanwhile."""
    names = [f"h{number}" for number in range(6)]
    async with Receiver().serving() as hanging, Receiver().serving() as good, sending(room) as deliveries:
        hanging.open.clear()
        await room.create(*names, url=hanging.url)
        first = [asyncio.create_task(sent(deliveries, f"inst_{name}")) for name in names[:NEW_SHARE]]
        await until(lambda: len(hanging.messages) == NEW_SHARE)
        clock.advance(SLOW_SECONDS + 1)
        assert [await sent(deliveries, f"inst_{name}") for name in names[NEW_SHARE:4]] == [
            SLOW_PAUSE,
            SLOW_PAUSE + timedelta(seconds=RETURN_SPACING_SECONDS),
        ]
        await room.create("good", url=good.url)
        assert await sent(deliveries, "inst_good") is None
        hanging.open.set()
        assert await asyncio.gather(*first) == [None] * NEW_SHARE

    assert (len(hanging.messages), len(good.messages)) == (NEW_SHARE, 1)


async def test_events_without_a_receiver_go_to_the_default_one(database: Database, clock: SteppedClock) -> None:
    """An instance with its own receiver, to that one alone."""
    async with Receiver().serving() as own, Receiver().serving() as default:
        room = EventEnv(database, clock, default_url=default.url)
        async with sending(room) as deliveries:
            await room.create("a1", url=own.url)
            await room.create("b2")
            for name in ("inst_a1", "inst_b2"):
                await sent(deliveries, name)

    assert [m.json["instanceId"] for m in own.messages] == ["inst_a1"]
    assert [m.json["instanceId"] for m in default.messages] == ["inst_b2"]


async def test_without_a_receiver_nothing_is_queued(room: EventEnv, deliveries: WebhookSender) -> None:
    """No delivery, no job; only the log."""
    await room.create("a1")

    assert (await listed(deliveries), await room.jobs_waiting()) == ([], 0)


async def test_a_change_without_a_name_is_not_sent(room: EventEnv, deliveries: WebhookSender) -> None:
    """It is in the log."""
    async with Receiver().serving() as receiver:
        (instance,) = await room.create("a1", url=receiver.url)
        await room.move(instance, Phase.STARTING, Phase.DELETING, Phase.TERMINATED)
        await sent(deliveries)

    assert receiver.events == ["created", "starting", "terminated"]
    assert len(await room.log.page(after=0, limit=10)) == 4


async def test_what_was_given_up_can_be_sent_again(room: EventEnv, deliveries: WebhookSender) -> None:
    """The same bytes, and the receiver that was gone is heard again."""
    async with Receiver(410, 200).serving() as receiver:
        (instance,) = await room.create("a1", url=receiver.url)
        await sent(deliveries)
        (gone,) = await listed(deliveries)
        again = await deliveries.redeliver(gone.id, LINE)
        jobs = await room.jobs_waiting()
        await sent(deliveries)
        await room.move(instance, Phase.STARTING)
        await sent(deliveries)

    assert (gone.status, again.status, jobs) == (DeliveryStatus.STOPPED, DeliveryStatus.PENDING, 2)
    assert receiver.events == ["created", "created", "starting"]
    assert receiver.messages[0] == receiver.messages[1]
    assert [d.attempts for d in await listed(deliveries)] == [2, 1]
    with pytest.raises(NotFoundError):
        await deliveries.redeliver(DeliveryId(999), LINE)


async def test_an_event_of_a_budget_goes_to_the_default_address_in_order(
    database: Database, clock: SteppedClock
) -> None:
    """It names no instance; the deliveries of one budget wait for each other, and each can be sent again."""
    async with Receiver(500, 200).serving() as receiver:
        room = EventEnv(database, clock, default_url=receiver.url)
        half, all_of_it = (
            FleetEvent(type=kind, subject="budget:day", reason="r", at=clock.now(), data={"budget": "day"})
            for kind in (EventType.BUDGET_THRESHOLD, EventType.BUDGET_EXHAUSTED)
        )
        async with database.transaction() as connection:
            await room.event_publisher.publish_of_fleet(connection, [half, all_of_it])
        async with sending(room) as deliveries:
            assert await sent(deliveries, "budget:day") == timedelta(seconds=5)
            clock.advance(5)
            assert await sent(deliveries, "budget:day") is None
            found = await listed(deliveries)
            await deliveries.redeliver(found[0].id, LINE)
            assert await sent(deliveries, "budget:day") is None

    names = [message.json["event"] for message in receiver.messages]
    assert names[:3] == ["budget.threshold", "budget.threshold", "budget.exhausted"]
    assert len(names) == 4
    assert {(m.json["instanceId"], m.json["instance"], m.json["status"]) for m in receiver.messages} == {
        (None, None, None)
    }
    assert {each.instance_id for each in found} == {None}
