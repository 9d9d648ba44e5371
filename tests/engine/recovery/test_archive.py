"""A backup is complete, is taken from a running service, and is imported completely or refused."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import asyncpg
import pytest
from support.database.archives import content, exported, imported
from support.database.fresh import new_database
from support.engines.engine_steps import REQUEST, WITH_SECRETS
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.access import Access
from corral.domain.container import ContainerSpec
from corral.domain.costs.totals import Cost
from corral.domain.errors import GoalRefusedError, MalformedError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.placement.catalog import EnvironmentVariable
from corral.engine.auth import api_keys
from corral.jobs import pgqueuer_adapter
from corral.store.server.migrate import migrate, migrations, report
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.sql.archive import EXPORTED, NOT_EXPORTED
from corral.store.tables import events
from corral.store.tables.costs.totals import total_cost

RECEIVER = "https://hooks.example/with-a-token"
OTHER_ROWS = """
INSERT INTO corral_delivery_attempts (delivery_id, number, at, http_status, duration_ms, error, fate)
SELECT id, 1, now(), 503, 12, E'caf\u00e9\n"quoted"', 'retry' FROM corral_deliveries;
INSERT INTO corral_silenced_receivers VALUES ('inst_1', 'https://hooks.example/x');
INSERT INTO corral_usage_gaps VALUES ('inst_1', '2029-05-01Z');
UPDATE corral_instances SET labels = '{"team": "vision"}', lease = '{"lease": {"max_duration": "PT8H"}}'
WHERE id = 'inst_1';
INSERT INTO corral_budgets (name, scope, period, limit_micro_usd, on_limit, thresholds, created_at, updated_at,
                            announced)
VALUES ('vision', 'label:team=vision', 'day', 200000000, 'stop', '{0.5,0.8,1}', now(), now(), '{0.5}');
INSERT INTO corral_idempotency (key, fingerprint, status, body, kept_at)
VALUES ('k', '\\x00ff'::bytea, 201, convert_to('{"a":1}', 'UTF8'), now());
INSERT INTO corral_audit (at, who, method, path, address, status, request_id)
VALUES (now(), 'ops', 'POST', '/api/instances', '127.0.0.1', 201, 'r1');
"""
CONTAINER = ContainerSpec(
    command="serve", env=(EnvironmentVariable(key="MODE", value="train"),), ports=(), min_cuda="12.4"
)
BEFORE_PRICES = 7
"""The schema before instances had a price of their own beside the record's."""
OLD_INSTANCE = """
INSERT INTO corral_instances
VALUES ('inst_1', 'worker', 'running', 'ready', 'CN-HK-01', 'p1', 4, false, now(), NULL, '{
    "id": "inst_1", "goal": "running", "phase": "ready", "operation_id": "op_1", "provider_id": "p1",
    "order": {"name": "worker", "product_name": "RTX 4090 24GB", "template_id": "1", "regions": ["CN-HK-01"]},
    "created_at": "2030-01-01T00:00:00Z", "phase_since": "2030-01-01T00:00:00Z", "deadline_at": null,
    "placement": {"region": "CN-HK-01", "cluster_id": "c", "product_id": "p", "billing_mode": "spot",
                  "micro_usd": 350000}}')
"""


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    """A service with something of every kind: an instance that is ready, one that is gone, one on its way."""
    async with stepped_engine(database, target) as engine:
        ready, gone = (
            await engine.request_create(replace(REQUEST, name="announced", webhook_url=RECEIVER, container=CONTAINER)),
            await engine.request_create(),
        )
        await engine.until(ready, Phase.READY)
        await engine.request_delete(gone)
        await engine.until(gone, Phase.TERMINATED)
        await engine.request_create(WITH_SECRETS)
        await api_keys.create_key(database, name="ops", access=Access.ADMIN, now=engine.clock.now())
        async with database.connection() as connection:
            await connection.execute(OTHER_ROWS)
        yield engine


@pytest.fixture
async def lines(engine: SteppedEngine, target: DatabaseTarget) -> list[bytes]:
    """What the service of *engine* exports while it runs."""
    assert await engine.phase(InstanceId("inst_3")) is Phase.CREATING
    return await exported(target)


@pytest.fixture
async def empty(server: DatabaseTarget) -> AsyncGenerator[DatabaseTarget]:
    """Where to import into."""
    async with new_database(server) as target:
        yield target


async def test_what_was_imported_is_what_was_exported(
    lines: list[bytes], target: DatabaseTarget, empty: DatabaseTarget
) -> None:
    """Row by row, of every kind, also into a database of another installation id; the import adds its audit line."""
    before = await content(target)
    header = await imported(empty, lines)
    after = await content(empty)
    (added,) = set(after["audit"]) - set(before["audit"])

    assert all(before.values()), "something of every kind"
    assert after == {**before, "audit": sorted([*before["audit"], added])}
    line = json.loads(added)
    assert (line["who"], line["method"], line["route"]) == ("command line", "CLI", "import")
    assert line["path"] == f"{header.rows} rows of installation {header.installation}"
    assert header.counts == {kind: len(rows) for kind, rows in before.items() if kind != "mark"}
    assert len(lines) == 1 + sum(header.counts.values())


async def test_an_import_leaves_costs_as_they_were(
    engine: SteppedEngine, target: DatabaseTarget, empty: DatabaseTarget
) -> None:
    """How long a machine certainly ran is known from listings, of which only the last is recorded."""
    await engine.steps(20)
    written = await exported(target)
    await imported(empty, written)
    restored = await Database.connect(empty, most_connections=1)
    found: list[Cost] = []
    for each in (engine.database, restored):
        async with each.connection() as connection:
            now = engine.clock.now()
            found.append(await total_cost(connection, since=now - timedelta(days=1), until=now, now=now))
    await restored.close()

    assert found[0] == found[1]
    assert found[0].low > 0


async def test_a_notice_is_not_imported(engine: SteppedEngine, target: DatabaseTarget, empty: DatabaseTarget) -> None:
    """The lease may have been extended since the export: its end is announced again."""
    notice = '{"cause": "idle", "reason": "", "given_at": "2030-01-01T00:00:00Z", "ends_at": "2030-01-01T00:10:00Z"}'
    async with engine.database.connection() as connection:
        await connection.execute(
            "UPDATE corral_instances SET lease = $1 WHERE id = 'inst_1'", f'{{"notice": {notice}}}'
        )
    await imported(empty, await exported(target))
    found = [json.loads(row)["lease"] for row in (await content(empty))["instance"]]

    assert [lease for lease in found if lease is not None] == [{}]


async def test_every_table_is_either_kept_or_can_be_learnt_again(database: Database) -> None:
    """A new table must be named here."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'corral\\_%'"
            " AND relname NOT LIKE 'corral\\_pgqueuer%'"
        )

    assert {row["relname"] for row in rows} == {*EXPORTED.values(), *NOT_EXPORTED}


async def test_the_engine_and_the_log_continue_where_they_were(
    lines: list[bytes], engine: SteppedEngine, empty: DatabaseTarget
) -> None:
    """What was on its way arrives, created once; and readers that follow the log by number notice nothing."""
    async with engine.database.connection() as connection:
        last = await events.last(connection)
    await imported(empty, lines)
    restored = await Database.connect(empty, most_connections=6)
    try:
        async with restored.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM corral_pgqueuer") == 1, (
                "the event is still delivered"
            )
            assert await connection.execute("DELETE FROM corral_pgqueuer") == "DELETE 1"
            assert await events.last(connection) == last
        async with stepped_engine(restored, empty, after=engine) as again:
            await again.until(InstanceId("inst_3"), Phase.READY)
        async with restored.connection() as connection:
            numbers = [e.seq for e in await events.page(connection, after_seq=0, limit=500)]
    finally:
        await restored.close()

    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > last
    assert len(engine.sim.instances("inst-3")) == 1


async def test_only_an_empty_database_is_imported_into(lines: list[bytes], target: DatabaseTarget) -> None:
    """Two databases are never mixed, and none is overwritten."""
    before = await content(target)

    with pytest.raises(GoalRefusedError, match="Corral is running on this database"):
        await imported(target, lines)
    assert await content(target) == before


async def test_what_is_already_there_is_named(lines: list[bytes], empty: DatabaseTarget) -> None:
    """In one sentence, with the way out."""
    await imported(empty, lines)
    before = await content(empty)

    with pytest.raises(GoalRefusedError, match=r"not empty \(key: 1, instance: 3, .*import into a new one"):
        await imported(empty, lines)
    assert await content(empty) == before


_LONG = "".join(sha256(str(n).encode()).hexdigest() for n in range(200))
"""Of chance, because PostgreSQL packs what it can."""


def _changed(line: bytes, **values: Any) -> bytes:
    read = json.loads(line)
    return json.dumps({**read, "row": {**read["row"], **values}}).encode()


def _without(line: bytes, name: str) -> bytes:
    read = json.loads(line)
    return json.dumps({**read, "row": {k: v for k, v in read["row"].items() if k != name}}).encode()


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "not JSON": (lambda line: line[:-5], "truncated|malformed"),
    "not UTF-8": (lambda line: line.replace(b"worker", b"w\xffrker"), "utf-8"),
    "another kind": (lambda line: line.replace(b'"instance"', b'"flock"', 1), "there is no kind 'flock'"),
    "a column too few": (lambda line: _without(line, "goal"), "'goal' is missing"),
    "a column too many": (lambda line: _changed(line, colour="red"), "'colour' is not known"),
    "an unknown phase": (lambda line: _changed(line, phase="flying"), "flying"),
    "a record that cannot be read": (lambda line: _changed(line, record={"id": "inst_2"}), "order"),
    "a lease that cannot be read": (lambda line: _changed(line, lease={"lease": {"grace": "soon"}}), "duration"),
    "a record of another": (lambda line: _changed(line, id="inst_9"), "not agree with the columns"),
    "a value PostgreSQL refuses": (lambda line: _changed(line, created_at="yesterday-ish"), "timestamp"),
    "a NULL where none may be": (lambda line: _changed(line, generation=None), "not-null"),
    "a number too large": (lambda line: _changed(line, micro_usd=2**70), "out of range"),
    "nested too deeply": (lambda line: line.replace(b'"record":', b'"record":' + b"[" * 3000, 1), "recursion"),
    "an id longer than an index takes": (lambda line: _changed(line, name=_LONG), "index row"),
}


@pytest.mark.parametrize("wrong", BROKEN)
async def test_the_first_bad_line_is_named_and_nothing_is_written(
    wrong: str, lines: list[bytes], empty: DatabaseTarget
) -> None:
    """All or nothing: a half-restored memory would be taken for a whole one."""
    broken, why = BROKEN[wrong]
    place = next(i for i, line in enumerate(lines) if b'"inst_2"' in line and b'"kind":"instance"' in line)
    before = await content(empty)

    with pytest.raises(MalformedError, match=f"^line {place + 1}: .*({why})"):
        await imported(empty, [*lines[:place], broken(lines[place]), *lines[place + 1 :]])
    assert await content(empty) == before


async def test_a_file_that_ends_early_is_refused(lines: list[bytes], empty: DatabaseTarget) -> None:
    """A full disk leaves such files behind."""
    with pytest.raises(MalformedError, match=f"line {len(lines) - 1}: the file ends here"):
        await imported(empty, lines[:-1])
    assert not (await content(empty))["instance"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"format": 2}, "format 2, this release reads up to 1"),
        ({"schema": 9999}, "schema 9999, this release knows up to"),
        ({"schema": 10**4000}, "schema 10{290,299}…, this release knows up to"),
        ({"corral": "import"}, "not a file that `corral export` wrote"),
        ({"installation": "'; DROP"}, "not the id of an installation"),
        ({"counts": None}, "not a file that `corral export` wrote"),
    ],
)
async def test_a_file_of_another_installation_is_refused_before_any_write(
    wrong: dict[str, Any], why: str, lines: list[bytes], server: DatabaseTarget
) -> None:
    """A newer release may mean something else by what we can read."""
    async with new_database(server, migrated=False) as untouched:
        with pytest.raises(MalformedError, match=f"line 1: .*{why}"):
            await imported(untouched, [json.dumps({**json.loads(lines[0]), **wrong}).encode(), *lines[1:]])

        assert len((await report(untouched)).missing) == len(migrations())


@pytest.mark.parametrize(
    "line", [b'{"corral":"\xff"}', b'{"corral":"export","format":1,"x":' + b"[" * 3000, b"\x00" * 9000]
)
async def test_a_file_of_bytes_is_no_export(line: bytes, empty: DatabaseTarget) -> None:
    """Any wrong file gets a short error."""
    with pytest.raises(MalformedError, match="line 1: this is not a file") as caught:
        await imported(empty, [line])
    assert len(str(caught.value)) < 500


async def test_an_empty_file_is_no_export(empty: DatabaseTarget) -> None:
    """It has no first line."""
    with pytest.raises(MalformedError, match="line 1: this is not a file"):
        await imported(empty, [])


async def test_an_older_schema_is_read_as_it_was_and_then_brought_up_to_date(server: DatabaseTarget) -> None:
    """A backup outlives upgrades: what later migrations do to rows is done to these too."""
    async with new_database(server, migrated=False) as old, new_database(server, migrated=False) as new:
        await migrate(
            old, first=pgqueuer_adapter.install, steps=[step for step in migrations() if step.number <= BEFORE_PRICES]
        )
        connection = await asyncpg.connect(**old.arguments())
        await connection.execute(OLD_INSTANCE)
        await connection.close()
        lines = await exported(old)
        await imported(new, lines)
        connection = await asyncpg.connect(**new.arguments())
        row = await connection.fetchrow("SELECT micro_usd, lease FROM corral_instances")
        await connection.close()

        assert (row["micro_usd"], row["lease"]) == (350_000, None)
        assert not (await report(new)).missing


async def test_an_older_schema_needs_an_unused_database(lines: list[bytes], empty: DatabaseTarget) -> None:
    """Its rows could not be brought up to date in one that is."""
    older = json.dumps({**json.loads(lines[0]), "schema": BEFORE_PRICES}).encode()

    with pytest.raises(GoalRefusedError, match=f"the file has schema {BEFORE_PRICES} and the database"):
        await imported(empty, [older, *lines[1:]])


async def test_there_is_nothing_to_export_where_corral_never_was(server: DatabaseTarget) -> None:
    """An empty file would look like a backup."""
    async with new_database(server, migrated=False) as untouched:
        with pytest.raises(GoalRefusedError, match="nothing to export"):
            await exported(untouched)
