"""Every change by request is in one transaction with its audit line: both are committed, or neither."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.clock.clocks import SteppedClock
from support.engines.event_env import EventEnv
from support.engines.outbox import outbox
from support.http.served_api_with_provider import ServedApiWithProvider, staged
from support.http.service import Answer, serving

from corral.domain.leases.lease import EndCause, LeaseState
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.store.session.database import Database

CHANGED = (
    "corral_instances",
    "corral_operations",
    "corral_deliveries",
    "corral_job_pause",
    "corral_finished_jobs",
    "corral_audit",
)
WATCH = """
CREATE TABLE seen (name text, transaction text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO seen VALUES (TG_TABLE_NAME, pg_current_xact_id()::text);
  RETURN NULL;
END $$;
"""
REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no audit line can be written'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON corral_audit EXECUTE FUNCTION refuse();
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The transactions that changed something since `clear`."""

    database: Database

    async def start(self) -> None:
        async with self.database.connection() as connection:
            await connection.execute(WATCH)
            for table in CHANGED:
                await connection.execute(
                    f"CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON {table}"
                    " FOR EACH ROW EXECUTE FUNCTION note()"
                )

    async def clear(self) -> None:
        async with self.database.connection() as connection:
            await connection.execute("DELETE FROM seen")

    async def transactions(self) -> tuple[set[str], set[str]]:
        """Those that changed a row of what is audited, and those that wrote an audit line."""
        async with self.database.connection() as connection:
            rows = await connection.fetch("SELECT name, transaction FROM seen")
        changes = {row["transaction"] for row in rows if row["name"] != "corral_audit"}
        return changes, {row["transaction"] for row in rows if row["name"] == "corral_audit"}

    async def refuse_lines(self) -> None:
        async with self.database.connection() as connection:
            await connection.execute(REFUSE)


@pytest.fixture
async def watch(database: Database) -> Watch:
    watch = Watch(database=database)
    await watch.start()
    return watch


@pytest.fixture
async def served(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database, lookup=True) as served:
        yield served


Request = Callable[[], Awaitable[Answer]]
Prepare = Callable[[ServedApiWithProvider], Awaitable[Request]]


async def create(served: ServedApiWithProvider) -> Request:
    return served.api.request_create


async def create_with_a_key(served: ServedApiWithProvider) -> Request:
    body = {"name": "trainer", "productName": "RTX 4090 24GB", "templateId": 204511}
    ask = served.api.service.ask
    return lambda: ask("POST", "/api/instances", json=body, headers={"Idempotency-Key": "k"})


def command(verb: str, *, key: str | None = None, **fields: Any) -> Prepare:
    async def prepare(served: ServedApiWithProvider) -> Request:
        state: dict[str, Any] = {"phase": Phase.READY, "sighting": Sighting.RUNNING}
        ours, _ = await served.managed(**state | fields)
        async with served.api.env.database.connection() as connection:
            await connection.execute("UPDATE corral_operations SET status = 'completed'")
        headers = {} if key is None else {"Idempotency-Key": key}
        if verb == "delete":
            return lambda: served.api.service.ask("DELETE", f"/api/instances/{ours}", headers=headers)
        return lambda: served.api.service.ask("POST", f"/api/instances/{ours}/{verb}", headers=headers)

    prepare.__name__ = verb if key is None else f"{verb}_with_a_key"
    return prepare


async def delete_by_name(served: ServedApiWithProvider) -> Request:
    await served.managed(name="by-name")
    return lambda: served.api.service.ask("POST", "/api/instances/delete", json={"instanceName": "by-name"})


async def relabel(served: ServedApiWithProvider) -> Request:
    ours, _ = await served.managed()
    return lambda: served.api.service.ask("PATCH", f"/api/instances/{ours}", json={"labels": {"team": "vision"}})


async def adopt(served: ServedApiWithProvider) -> Request:
    theirs = await served.foreign()
    return lambda: served.api.service.ask("POST", f"/api/instances/{theirs}/adopt")


async def start_by_the_name_at_the_provider(served: ServedApiWithProvider) -> Request:
    theirs = await served.foreign("lab")
    served.sim.advance(10)
    await served.sim.ask("/gpu/instance/stop", {"instanceId": theirs})
    served.sim.advance(10)
    return lambda: served.api.service.ask("POST", "/api/instances/start", json={"instanceName": "lab"})


async def pause(served: ServedApiWithProvider) -> Request:
    return lambda: served.api.service.ask("POST", "/api/jobs/pause")


async def resume(served: ServedApiWithProvider) -> Request:
    await served.api.service.ask("POST", "/api/jobs/pause")
    return lambda: served.api.service.ask("POST", "/api/jobs/resume")


async def clean_up(served: ServedApiWithProvider) -> Request:
    async with served.api.env.database.connection() as connection:
        await connection.execute(
            "INSERT INTO corral_finished_jobs"
            " (id, type, priority, attempts, payload, created_at, started_at, finished_at)"
            " SELECT 1, 'create_instance', 0, 0, '{}', at, at, at FROM (SELECT now() - '2 days'::interval) AS t (at)"
        )
    return lambda: served.api.service.ask("POST", "/api/jobs/cleanup")


REQUESTS = pytest.mark.parametrize(
    "prepare",
    [
        create,
        create_with_a_key,
        command("start", phase=Phase.EXITED, sighting=Sighting.EXITED),
        command("stop"),
        command("stop", phase=Phase.STOPPING, goal=Goal.STOPPED, lease=LeaseState(ended_by=EndCause.MAX_DURATION)),
        command("restart"),
        command("delete"),
        command("delete", key="k"),
        delete_by_name,
        relabel,
        adopt,
        start_by_the_name_at_the_provider,
        pause,
        resume,
        clean_up,
    ],
    ids=lambda prepare: prepare.__name__,
)


@REQUESTS
async def test_a_change_and_its_audit_line_share_a_transaction(
    served: ServedApiWithProvider, watch: Watch, prepare: Prepare
) -> None:
    """A process that dies at any moment leaves a change with its line, or neither."""
    request = await prepare(served)
    await watch.clear()
    answer = await request()
    changes, lines = await watch.transactions()

    assert answer.status in {200, 201, 202}, answer
    assert changes
    assert changes == lines


@REQUESTS
async def test_a_change_without_its_audit_line_does_not_happen(
    served: ServedApiWithProvider, watch: Watch, prepare: Prepare
) -> None:
    """Whatever keeps the line from being written, the request fails and changes nothing."""
    request = await prepare(served)
    await watch.refuse_lines()
    await watch.clear()
    answer = await request()

    assert answer.status == 500, answer
    assert await watch.transactions() == (set(), set())


async def test_a_redelivery_and_its_audit_line_share_a_transaction(database: Database, watch: Watch) -> None:
    """The delivery, the job that sends it, and the line."""
    room = EventEnv(database, SteppedClock())
    await room.create("a1", url="https://receiver.example/hook")
    async with serving(database, webhook_sender=outbox(room)) as service:
        (one,) = (await service.ask("GET", "/api/webhooks/deliveries")).json["deliveries"]
        await watch.clear()
        answer = await service.ask("POST", f"/api/webhooks/deliveries/{one['id']}/redeliver")
        changes, lines = await watch.transactions()
        (line,) = (await service.ask("GET", "/api/audit")).json["entries"]

        assert answer.status == 202, answer
        assert len(changes) == 1
        assert changes == lines
        assert (line["instanceId"], line["status"]) == ("inst_a1", 202)

        await watch.refuse_lines()
        await watch.clear()
        refused = await service.ask("POST", f"/api/webhooks/deliveries/{one['id']}/redeliver")

        assert refused.status == 500, refused
        assert await watch.transactions() == (set(), set())
