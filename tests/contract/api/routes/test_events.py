"""The log, the stream and the outbox as their callers see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.engines.event_env import UP, EventEnv
from support.engines.outbox import outbox, sending, sent
from support.http.listener import listening
from support.http.receiver import Receiver
from support.http.service import Service, error_of, serving

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.cache.registry import CacheName
from corral.domain.access import Access
from corral.domain.lifecycle.phases import Phase
from corral.engine.auth.api_keys import create_key, revoke_key
from corral.engine.events.stream import GREETING, HEARTBEAT_SECONDS, TOGETHER, UNFOLLOWED_SECONDS, EventStream
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.session.notifications import Notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnv:
    """A served event environment."""

    room: EventEnv
    hub: EventStream
    clock: SteppedClock
    metrics: Metrics
    service: Service

    @property
    def streams(self) -> float:
        """How many clients follow."""
        return self.metrics.registry.get_sample_value("corral_event_streams") or 0


@asynccontextmanager
async def desk_of(database: Database, target: DatabaseTarget, *, held: int = 100) -> AsyncGenerator[CommandEnv]:
    clock, metrics = SteppedClock(), Metrics()
    room = EventEnv(database, clock)
    hub = EventStream(room.log, clock=clock, metrics=metrics, held=held, pause_seconds=0)
    notices = Notifications(target, clock)
    hub.listen(notices)
    tasks = [asyncio.create_task(notices.run()), asyncio.create_task(hub.run())]
    await until(lambda: notices.listening)
    try:
        async with serving(database, event_log=room.log, event_stream=hub, webhook_sender=outbox(room)) as service:
            yield CommandEnv(room=room, hub=hub, clock=clock, metrics=metrics, service=service)
            hub.stop()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.fixture
async def env(database: Database, target: DatabaseTarget) -> AsyncGenerator[CommandEnv]:
    async with desk_of(database, target) as env:
        yield env


async def test_the_newest_are_read_without_the_rest(env: CommandEnv) -> None:
    """Of all, of one instance, and of those after a number; in order, so that a reader can go on from there."""
    made = await env.room.create("a1", "b2")
    await env.room.move(made[0], *UP)

    newest = (await env.service.ask("GET", "/api/events?last=2&limit=1")).json
    of_one = (await env.service.ask("GET", "/api/events?last=1&instanceId=inst_b2")).json
    by_path = (await env.service.ask("GET", "/api/instances/inst_a1/events?last=2")).json
    after = (await env.service.ask("GET", "/api/events?last=500&after=5")).json

    assert [e["seq"] for e in newest["events"]] == [5, 6]
    assert (newest["nextAfter"], newest["limit"]) == (6, 2)
    assert [(e["seq"], e["instanceId"]) for e in of_one["events"]] == [(2, "inst_b2")]
    assert [e["seq"] for e in by_path["events"]] == [5, 6]
    assert [e["seq"] for e in after["events"]] == [6]
    for wrong in ("0", "501", "x"):
        error_of(await env.service.ask("GET", f"/api/events?last={wrong}"), 400, "VALIDATION_ERROR")


async def test_events_are_numbered_also_without_followers(env: CommandEnv) -> None:
    """Once a second: else the first to come after a year would wait until a year of them is numbered."""
    await env.room.create("a1", "b2")

    async def is_numbered() -> bool:
        env.clock.advance(UNFOLLOWED_SECONDS)
        async with env.room.database.connection() as connection:
            return not await connection.fetchval("SELECT count(*) FROM corral_events WHERE seq IS NULL")

    await until(is_numbered)

    assert env.room.log.reads == 0


async def test_the_log_is_read_page_by_page(env: CommandEnv) -> None:
    """Each page says where the next begins; one past the end says where to come back."""
    made = await env.room.create("a1", "b2")
    await env.room.move(made[0], *UP)

    first = (await env.service.ask("GET", "/api/events?limit=4")).json
    second = (await env.service.ask("GET", f"/api/events?limit=4&after={first['nextAfter']}")).json
    third = (await env.service.ask("GET", f"/api/events?after={second['nextAfter']}")).json

    assert [e["seq"] for e in first["events"] + second["events"]] == [1, 2, 3, 4, 5, 6]
    assert (first["nextAfter"], second["nextAfter"], third) == (4, 6, {"events": [], "nextAfter": 6, "limit": 100})
    assert {key: value for key, value in second["events"][-1].items() if key != "id"} == {
        "seq": 6,
        "event": "instance.ready",
        "instanceId": "inst_a1",
        "novitaInstanceId": "n-inst_a1",
        "status": "ready",
        "previousStatus": "health_checking",
        "timestamp": "2030-01-01T00:00:00.000Z",
        "elapsedTime": 0,
        "operationId": "op_a1",
        "reason": "now ready",
        "error": None,
        "labels": {},
        "data": {"name": "a1", "region": "CN-HK-01", "productId": "p-1"},
    }


@pytest.mark.parametrize(
    "path", ["/api/events?instanceId=inst_a1", "/api/instances/inst_a1/events", "/api/instances/n-inst_a1/events"]
)
async def test_one_instance_has_its_own_story(env: CommandEnv, path: str) -> None:
    """Found by Corral's id and by the provider's."""
    made = await env.room.create("a1", "b2")
    await env.room.move(made[0], Phase.STARTING)

    page = (await env.service.ask("GET", path)).json

    assert [(e["seq"], e["instanceId"]) for e in page["events"]] == [(1, "inst_a1"), (3, "inst_a1")]


@pytest.mark.parametrize("given", ["inst_zz", "%00", "%FF", "ö", "x" * 3000])
async def test_an_unknown_instance_has_none(env: CommandEnv, given: str) -> None:
    """A mistyped id is an error, not an empty page."""
    error_of(await env.service.ask("GET", f"/api/instances/{given}/events"), 404, "INSTANCE_NOT_FOUND")


@pytest.mark.parametrize(
    "path",
    [
        "/api/events?after=-1",
        "/api/events?after=9223372036854775808",
        "/api/events?limit=501",
        "/api/events?instanceId=%00",
        "/api/events/stream?after=x",
        "/api/webhooks/deliveries?instanceId=%00",
        "/api/webhooks/deliveries?status=odd",
    ],
)
async def test_a_bad_query_is_named(env: CommandEnv, path: str) -> None:
    """In the one shape of errors."""
    error = error_of(await env.service.ask("GET", path), 400, "VALIDATION_ERROR")

    assert [problem["code"] for problem in error["validationErrors"]] == ["INVALID_QUERY"]


async def test_a_stream_sends_the_next_events(env: CommandEnv) -> None:
    """From the moment it is connected; the numbers are the log's, the content too."""
    (instance,) = await env.room.create("a1")
    async with listening(env.service.address) as listener:
        await env.room.move(instance, *UP)
        reported = await listener.events(4)
    page = (await env.service.ask("GET", "/api/events?after=1")).json

    assert [number for number, _ in reported] == [2, 3, 4, 5]
    assert [event for _, event in reported] == page["events"]


async def test_a_stream_resumes_after_the_last_event_of_the_client(env: CommandEnv) -> None:
    """By the header browsers send, which beats the query they repeat; by the query alone; and across the live edge."""
    (instance,) = await env.room.create("a1")
    instance = await env.room.move(instance, *UP)
    async with listening(env.service.address, "?after=0", last_event_id=2) as resumed:
        assert [number for number, _ in await resumed.events(3)] == [3, 4, 5]
        await env.room.move(instance, Phase.STOPPING)
        assert [number for number, _ in await resumed.events(1)] == [6]
    async with listening(env.service.address, "?after=0") as whole:
        assert [number for number, _ in await whole.events(6)] == [1, 2, 3, 4, 5, 6]


async def test_a_number_from_another_log_begins_with_the_next_event(env: CommandEnv) -> None:
    """A client from before a restored database would otherwise wait for ever."""
    async with listening(env.service.address, last_event_id=1000) as listener:
        await env.room.create("a1")

        assert [number for number, _ in await listener.events(1)] == [1]


async def test_a_stream_may_follow_one_instance(env: CommandEnv) -> None:
    """What happened before and what happens now."""
    made = await env.room.create("a1", "b2")
    async with listening(env.service.address, "?after=0&instanceId=inst_b2") as listener:
        for instance in made:
            await env.room.move(instance, Phase.STARTING)

        assert [number for number, _ in await listener.events(2)] == [2, 4]


async def test_a_quiet_stream_shows_that_it_lives(env: CommandEnv) -> None:
    """A comment every 15 s, for proxies that cut silent connections."""
    async with listening(env.service.address) as listener:
        await until(lambda: env.streams == 1)
        for _ in range(3):
            env.clock.advance(HEARTBEAT_SECONDS)

            assert await listener.block() == [": heartbeat"]


async def test_streams_end_when_the_service_stops(env: CommandEnv) -> None:
    """At once and in order, so that a stop does not wait for clients that never leave."""
    async with listening(env.service.address) as one, listening(env.service.address) as other:
        env.hub.stop()

        assert (await one.block(), await other.block()) == ([], [])
        assert one.response.content.at_eof()
    await until(lambda: env.streams == 0)


async def test_a_stream_ends_within_a_heartbeat_of_the_revocation_of_its_key(env: CommandEnv) -> None:
    """Other streams go on."""
    now = SystemClock().now()
    keys = [
        (await create_key(env.room.database, name=name, access=Access.VIEWER, now=now))[1] for name in ("one", "two")
    ]
    async with (
        listening(env.service.address, headers={"X-API-Key": keys[0]}) as revoked,
        listening(env.service.address, headers={"X-API-Key": keys[1]}) as other,
        listening(env.service.address) as local,
    ):
        await until(lambda: env.streams == 3)
        env.clock.advance(HEARTBEAT_SECONDS)
        assert [await each.block() for each in (revoked, other, local)] == [[": heartbeat"]] * 3

        await revoke_key(env.room.database, named="one", now=now)
        env.service.engine.caches.registry.clear(CacheName.API_KEYS)
        env.clock.advance(HEARTBEAT_SECONDS)

        assert [await each.block() for each in (revoked, other, local)] == [[], [": heartbeat"], [": heartbeat"]]
    await until(lambda: env.streams == 0)


async def test_the_headers_of_a_stream_can_be_asked_for(env: CommandEnv) -> None:
    """HEAD ends at once, and nothing is left behind."""
    answer = await env.service.ask("HEAD", "/api/events/stream")

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    await until(lambda: env.streams == 0)


async def test_a_client_that_leaves_is_forgotten(env: CommandEnv) -> None:
    """Nothing is kept for it."""
    async with listening(env.service.address):
        await until(lambda: env.streams == 1)

    await until(lambda: env.streams == 0)


async def test_a_client_that_follows_is_not_one_that_waits(env: CommandEnv) -> None:
    """Jobs yield to waiting callers; if open streams counted, jobs would never run."""
    async with listening(env.service.address):
        await until(lambda: env.streams == 1)

        assert env.service.parts.service_health.callers_waiting == 0


async def test_many_clients_are_served_by_one_reader(env: CommandEnv) -> None:
    """Each gets everything, once and in order; the database is asked once for all of them."""
    clients = 2 * TOGETHER + 1
    async with AsyncExitStack() as stack:
        listeners = [await stack.enter_async_context(listening(env.service.address)) for _ in range(clients)]
        await until(lambda: env.streams == clients)
        before = env.room.log.reads
        (instance,) = await env.room.create("a1")
        await env.room.move(instance, *UP)
        reported = await asyncio.gather(*(listener.events(5) for listener in listeners))

    assert [[number for number, _ in each] for each in reported] == [[1, 2, 3, 4, 5]] * clients
    assert env.room.log.reads - before < clients


async def test_a_client_that_is_far_behind_reads_the_log_itself(database: Database, target: DatabaseTarget) -> None:
    """Little is held for the slow ones, and they still miss nothing."""
    async with desk_of(database, target, held=3) as env:
        async with listening(env.service.address) as slow:
            for number in range(30):
                await env.room.create(*(f"n{number}-{each}" for each in range(10)))
            numbers = [number for number, _ in await slow.events(300)]

        assert numbers == list(range(1, 301))


async def test_nothing_is_collected_for_a_client_that_does_not_read(database: Database, target: DatabaseTarget) -> None:
    """It finds everything in the database when it comes round to it."""
    async with desk_of(database, target, held=3) as env:
        stream = env.hub.follow(await env.hub.place(None))
        assert await anext(stream) == GREETING
        await env.room.create(*(f"n{number}" for number in range(250)))
        await until(lambda: len(env.hub._held) == 3)
        text = b"".join([await anext(stream) for _ in range(3)])
        await stream.aclose()

        assert [int(line[4:]) for line in text.splitlines() if line.startswith(b"id: ")] == list(range(1, 251))


async def test_streams_outlive_a_database_that_was_away(env: CommandEnv, database: Database) -> None:
    """Every connection is cut, the listener's and the reader's too; events of that time still arrive."""
    async with listening(env.service.address) as listener:
        async with database.connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await env.room.create("a1")
        reported = asyncio.create_task(listener.events(1))

        def arrived() -> bool:
            env.clock.advance(1)
            return reported.done()

        await until(arrived)

    assert [number for number, _ in await reported] == [1]


async def test_a_stream_is_refused_while_the_database_is_away(env: CommandEnv, database: Database) -> None:
    """With the word that it is so, and when to come back."""
    database.pool.terminate()

    error_of(await env.service.ask("GET", "/api/events/stream"), 503, "DATABASE_UNAVAILABLE")


async def test_deliveries_are_listed_without_their_secrets(env: CommandEnv) -> None:
    """Host, outcome and every attempt; no path, no query, no body."""
    async with Receiver(204, 500).serving() as receiver, sending(env.room) as deliveries:
        (instance,) = await env.room.create("a1", url=receiver.url)
        await env.room.move(instance, Phase.STARTING)
        await sent(deliveries)
    answer = await env.service.ask("GET", "/api/webhooks/deliveries?instanceId=inst_a1")
    second, first = answer.json["deliveries"]
    failing = (await env.service.ask("GET", "/api/webhooks/deliveries?status=pending&limit=1")).json

    assert b"secret" not in answer.body
    assert (answer.json["total"], failing["total"], failing["deliveries"]) == (2, 1, [second])
    assert (first["status"], first["host"], first["event"], first["seq"]) == (
        "delivered",
        "127.0.0.1",
        "instance.created",
        1,
    )
    assert first["eventId"] == receiver.messages[0].id
    assert (second["attempts"], second["nextAttemptAt"]) == (1, "2030-01-01T00:00:05.000Z")
    assert [(a["httpStatus"], a["fate"], a["error"]) for a in second["history"]] == [
        (500, "retry", "server_error: answered with status 500")
    ]


async def test_a_delivery_is_sent_again_on_demand(env: CommandEnv) -> None:
    """Accepted, pending, and done by the next job."""
    async with Receiver().serving() as receiver, sending(env.room) as deliveries:
        await env.room.create("a1", url=receiver.url)
        await sent(deliveries)
        (one,) = (await env.service.ask("GET", "/api/webhooks/deliveries")).json["deliveries"]
        answer = await env.service.ask("POST", f"/api/webhooks/deliveries/{one['id']}/redeliver")
        await sent(deliveries)

    assert (answer.status, answer.json["id"], answer.json["status"]) == (202, one["id"], "pending")
    assert receiver.messages[0] == receiver.messages[1]


@pytest.mark.parametrize("delivery_id", ["dlv_999", "999", "dlv_x", "9" * 40, "%00"])
async def test_an_unknown_delivery_is_not_found(env: CommandEnv, delivery_id: str) -> None:
    """Whatever is written in its place."""
    answer = await env.service.ask("POST", f"/api/webhooks/deliveries/{delivery_id}/redeliver")

    error_of(answer, 404, "NOT_FOUND")


async def test_the_routes_are_documented(env: CommandEnv) -> None:
    """With their answers."""
    schema = (await env.service.ask("GET", "/schema/openapi.json")).json
    paths, shapes = schema["paths"], schema["components"]["schemas"]

    assert {"/api/events", "/api/events/stream", "/api/webhooks/deliveries"} <= set(paths)
    assert "text/event-stream" in paths["/api/events/stream"]["get"]["responses"]["200"]["content"]
    assert "202" in paths["/api/webhooks/deliveries/{delivery_id}/redeliver"]["post"]["responses"]
    assert {"EventDetails", "EventPage", "DeliveryDetails", "DeliveryList"} <= set(shapes)
