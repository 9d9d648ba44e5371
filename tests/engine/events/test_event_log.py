"""The log on the real database: one order, no gaps, nothing that turns up late."""

from __future__ import annotations

import asyncio
import random

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.engines.event_env import UP, EventEnv

from corral.domain.errors import Failure
from corral.domain.events import Change
from corral.domain.lifecycle.phases import Phase
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.session.notifications import Notifications
from corral.store.tables import events, instances

WRITERS = 8
EACH = 12


@pytest.fixture
def room(database: Database) -> EventEnv:
    return EventEnv(database, SteppedClock())


async def test_events_of_an_instance_are_in_order(room: EventEnv) -> None:
    """In public words, with the time since it was asked for."""
    (instance,) = await room.create("a1")
    assert isinstance(room.clock, SteppedClock)
    room.clock.advance(90)
    await room.move(instance, *UP)

    reported = await room.log.page(after=0, limit=100)

    assert [(e.seq, e.event.value, e.previous_status, e.status) for e in reported] == [
        (1, "instance.created", None, "creating"),
        (2, "instance.starting", "creating", "starting"),
        (3, "instance.running", "starting", "running"),
        (4, "instance.health_checking", "running", "health_checking"),
        (5, "instance.ready", "health_checking", "ready"),
    ]
    assert [e.elapsed_time for e in reported] == [0, 90_000, 90_000, 90_000, 90_000]
    assert (reported[0].novita_instance_id, reported[4].novita_instance_id) == (None, "n-inst_a1")
    assert reported[4].data == {"name": "a1", "region": "CN-HK-01", "productId": "p-1"}
    assert reported[4].timestamp == "2030-01-01T00:01:30.000Z"
    assert len({e.id for e in reported}) == 5
    assert all(e.id.startswith("evt_") for e in reported)


async def test_a_failure_says_why(room: EventEnv) -> None:
    """Code and message, as the instance has them."""
    (instance,) = await room.create("a1")
    await room.move(instance, Phase.FAILED, failure=Failure(code="RESOURCE_CONSTRAINTS", message="no stock"))

    (reported,) = await room.log.page(after=1, limit=1)

    assert (reported.event.value, reported.error and reported.error.code) == ("instance.failed", "RESOURCE_CONSTRAINTS")


async def test_events_of_a_batch_keep_the_order_of_the_batch(room: EventEnv) -> None:
    """One statement for all of them must not shuffle."""
    names = [f"n{number}" for number in range(200)]
    await room.create(*names)

    reported = await room.log.page(after=0, limit=500)

    assert [e.data["name"] for e in reported] == names


async def test_pages_follow_each_other(room: EventEnv) -> None:
    """Also of one instance, among others."""
    made = await room.create("a1", "b2")
    for instance in made:
        await room.move(instance, *UP)

    first = await room.log.page(after=0, limit=3, instance_id="inst_b2")
    second = await room.log.page(after=first[-1].seq, limit=3, instance_id="inst_b2")

    assert [e.status for e in first + second] == ["creating", *UP]
    assert await room.log.page(after=second[-1].seq, limit=3, instance_id="inst_b2") == []
    assert [e.seq for e in await room.log.page(after=4, limit=2)] == [5, 6]
    assert await room.log.last() == 10


async def test_an_open_transaction_is_numbered_when_it_ends(room: EventEnv, database: Database) -> None:
    """It began first and commits last: readers find it after the events they have seen."""
    slow = room.fresh("slow")
    async with database.transaction() as connection:
        await instances.add([slow]).run(connection)
        await room.event_publisher.publish(
            connection, [Change(before=None, after=slow, because="requested", at=room.clock.now())]
        )
        await room.create("quick")
        seen = await room.log.page(after=0, limit=10)

    assert [e.data["name"] for e in seen] == ["quick"]
    assert [(e.seq, e.data["name"]) for e in await room.log.page(after=1, limit=10)] == [(2, "slow")]


async def test_a_reader_never_finds_anything_behind_it(room: EventEnv, database: Database) -> None:
    """Many writers with overlapping transactions, many readers: each reads every event, in order."""
    dice = random.Random(7)  # noqa: S311  # an order, not a secret
    done = asyncio.Event()

    async def write(writer: int) -> None:
        for number in range(EACH):
            name = f"w{writer}-{number}"
            instance = room.fresh(name)
            async with database.transaction() as connection:
                await instances.add([instance]).run(connection)
                change = Change(before=None, after=instance, because="requested", at=room.clock.now())
                await room.event_publisher.publish(connection, [change])
                for _ in range(dice.randrange(6)):  # hold it open for a while
                    await connection.execute("SELECT pg_sleep(0.001)")

    async def read() -> list[int]:
        seen: list[int] = []
        while True:
            ended = done.is_set()
            found = await room.log.page(after=seen[-1] if seen else 0, limit=7)
            seen += [event.seq for event in found]
            if ended and not found:
                return seen

    readers = [asyncio.create_task(read()) for _ in range(3)]
    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    done.set()

    expected = list(range(1, WRITERS * EACH + 1))
    assert [expected] * 3 == await asyncio.gather(*readers)


async def test_a_quiet_log_is_read_without_the_lock(room: EventEnv, database: Database) -> None:
    """Readers of a log without new events do not wait for the numbering."""
    await room.create("a1")
    await room.log.last()
    async with database.transaction() as holder:
        await holder.execute("SELECT pg_advisory_xact_lock(hashtext('corral_number_events'))")

        assert len(await asyncio.wait_for(room.log.page(after=0, limit=10), 10)) == 1


async def test_a_rolled_back_change_is_not_announced(room: EventEnv, database: Database) -> None:
    """And leaves no hole in the numbers."""
    with pytest.raises(RuntimeError, match="changed my mind"):
        async with database.transaction() as connection:
            lost = room.fresh("lost")
            await room.event_publisher.publish(
                connection, [Change(before=None, after=lost, because="requested", at=room.clock.now())]
            )
            raise RuntimeError("changed my mind")
    await room.create("kept")

    assert [(e.seq, e.data["name"]) for e in await room.log.page(after=0, limit=10)] == [(1, "kept")]


async def test_every_process_hears_of_a_commit(room: EventEnv, target: DatabaseTarget) -> None:
    """Streams wake by it; without events there is no notification."""
    notices, heard = Notifications(target, SteppedClock()), list[str | None]()
    notices.subscribe(events.TOPIC, heard.append)
    task = asyncio.create_task(notices.run())
    await until(lambda: notices.listening)

    await room.create("a1", "b2")

    await until(lambda: heard == [None])
    task.cancel()
    await asyncio.wait([task])
