"""A database of an earlier release gets usage from its event log, and says where the log does not reach."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg
import msgspec
import pytest

from corral.domain.costs.totals import Cost, CostGrouping, GroupBy
from corral.jobs.pgqueuer_adapter import install
from corral.store.server.migrate import migrate, migrations
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables.costs.totals import leading_groups

T0: Final = datetime(2029, 5, 1, tzinfo=UTC)
PRICE: Final = 360_000
"""Micro-USD an hour, for two GPUs."""
NUMBER: Final = next(step.number for step in migrations() if step.name == "usage_of_before")
LIFE: Final = (
    (0, "creating", 0),
    (10, "starting", PRICE),
    (40, "running", PRICE),
    (40, "health_checking", PRICE),
    (50, "ready", PRICE),
    (3650, "stopping", PRICE),
    (3670, "exited", 0),
    (7270, "starting", PRICE),
    (7300, "running", PRICE),
    (7310, "ready", PRICE),
    (7910, "deleting", PRICE),
    (7930, "terminated", 0),
)


@pytest.fixture
async def empty(target: DatabaseTarget) -> DatabaseTarget:
    connection = await asyncpg.connect(**target.arguments())
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    return target


async def older(target: DatabaseTarget) -> asyncpg.Connection:
    """A database before usage came from the log."""
    await migrate(target, first=install, steps=[step for step in migrations() if step.number < NUMBER])
    return await asyncpg.connect(**target.arguments())


async def lived(connection: Any, instance_id: str, life: Any, *, gb: int = 60, previous: str | None = None) -> None:
    """Write an instance and its events, as an earlier release did."""
    record = {
        "order": {"gpu_num": 2, "rootfs_gb": gb, "product_name": "RTX 4090 24GB"},
        "placement": {"region": "CN-HK-01", "billing_mode": "spot"},
    }
    await connection.execute(
        "INSERT INTO corral_instances (id, name, goal, phase, provider_id, generation, create_in_doubt, created_at,"
        " record, labels, created_by) VALUES ($1, $1, 'running', $2, $1, 1, false, $3, $4, $5, 'olga')",
        instance_id,
        life[-1][1],
        T0,
        msgspec.json.encode(record).decode(),
        '{"team": "vision"}',
    )
    for seconds, status, micro_usd in life:
        data = {} if status == "creating" else {"providerId": instance_id}
        await connection.execute(
            "INSERT INTO corral_events (instance_id, type, status, previous_status, operation_id, reason, at, data,"
            " micro_usd) VALUES ($1, 'instance.changed', $2, $3, 'op', '', $4, $5, $6)",
            instance_id,
            status,
            previous,
            T0 + timedelta(seconds=seconds),
            msgspec.json.encode(data).decode(),
            micro_usd,
        )
        previous = status


async def costs(target: DatabaseTarget, grouping: CostGrouping, now: datetime) -> dict[str | None, Cost]:
    database = await Database.connect(target, most_connections=1)
    async with database.connection() as connection:
        group_by = GroupBy(grouping=grouping, label="team")
        found = await leading_groups(
            connection, since=T0 - timedelta(days=9), until=now, now=now, group_by=group_by, limit=1000
        )
    await database.close()
    return {group.key: group.cost for group in found.groups}


async def test_the_log_of_a_life_gives_its_usage(empty: DatabaseTarget) -> None:
    """From the create until it was seen running it may not have been billed; what was ending may have ended at once."""
    connection = await older(empty)
    await lived(connection, "inst_1", LIFE, gb=100)
    await migrate(empty, first=install)
    gaps = await connection.fetch("SELECT instance_id, until FROM corral_usage_gaps")
    await connection.close()

    per_second = PRICE / 3600
    disk = 40 * 5000 / 86400
    by_cause = await costs(empty, CostGrouping.CAUSE, T0 + timedelta(days=1))
    assert {cause: (float(cost.low), float(cost.high)) for cause, cost in by_cause.items()} == {
        "booting": (20 * per_second + 50 * disk, 90 * per_second + 90 * disk),
        "serving": (4200 * per_second + 4200 * disk, 4200 * per_second + 4200 * disk),
        "deleting": (20 * disk, 40 * per_second + 40 * disk),
        "stopped_disk": (3600 * disk, 3600 * disk),
    }
    by_label = await costs(empty, CostGrouping.LABEL, T0 + timedelta(days=1))
    assert list(by_label) == ["vision"]
    assert sum(by_cause.values(), Cost()) == by_label["vision"]
    assert [(row["instance_id"], row["until"]) for row in gaps] == [("", T0)]


async def test_what_runs_goes_on(empty: DatabaseTarget) -> None:
    """Its last span is open, and counts up to now; the first listing confirms it."""
    connection = await older(empty)
    await lived(connection, "inst_1", LIFE[:5])
    await migrate(empty, first=install)
    (row,) = await connection.fetch("SELECT * FROM corral_usage WHERE ended_latest IS NULL")
    await connection.close()

    assert (row["cause"], row["started_earliest"], row["unit_price"], row["quantity"]) == (
        "serving",
        T0 + timedelta(seconds=50),
        PRICE * 24 // 2,
        2,
    )
    (cost,) = (await costs(empty, CostGrouping.INSTANCE, T0 + timedelta(seconds=3650))).values()
    assert (float(cost.low), float(cost.high)) == (10 * PRICE / 3600, 3650 * PRICE / 3600)


async def test_where_the_log_does_not_reach_back_usage_is_unknown(empty: DatabaseTarget) -> None:
    """Old events are deleted: what was used before the first that is left is not known, and nothing is invented."""
    connection = await older(empty)
    await lived(connection, "inst_1", LIFE[6:], previous="stopping")
    await lived(connection, "inst_2", LIFE)
    await migrate(empty, first=install)
    gaps = await connection.fetch("SELECT instance_id, until FROM corral_usage_gaps ORDER BY 1")
    first = await connection.fetchval("SELECT min(started_earliest) FROM corral_usage WHERE instance_id = 'inst_1'")
    await connection.close()

    assert [(row["instance_id"], row["until"]) for row in gaps] == [
        ("", T0),
        ("inst_1", T0 + timedelta(seconds=3670)),
    ]
    assert first == T0 + timedelta(seconds=7270)


async def test_an_unused_database_has_no_gaps(empty: DatabaseTarget) -> None:
    """Everything that will be used is known."""
    await migrate(empty, first=install)
    connection = await asyncpg.connect(**empty.arguments())
    counted = await connection.fetchval("SELECT count(*) FROM corral_usage_gaps")
    await connection.close()
    assert counted == 0
