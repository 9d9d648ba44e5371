"""Filters of a list at ten thousand instances: labels are found by an index, a text without reading the records."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import pytest
from support.engines.stepped_engine import stepped_engine

from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Connection, Database
from corral.store.tables.fleet import instance_pages
from corral.store.tables.fleet.instance_pages import InstanceFilter

FLEET = 10_000
# One row for each number, like the one that there is; every record is larger than a row that stays in its page.
_COPIES = """
INSERT INTO corral_instances (id, name, goal, phase, region, generation, create_in_doubt, created_at, record,
                              product_name, labels)
SELECT 'inst_n' || n, name || n, goal, phase, region, 0, false, created_at - n * interval '1 minute',
       record || jsonb_build_object('padding',
         (SELECT string_agg(md5(n::text || i), '') FROM generate_series(1, 99) AS i)),
       product_name,
       CASE WHEN n % 2 = 0 THEN jsonb_build_object('team', 'team-' || n % 500, 'env', 'prod') END
FROM corral_instances, generate_series(1, $1) AS n
"""
_TOUCHED = re.compile(r"Buffers: shared hit=(\d+)(?: read=(\d+))?")


@pytest.fixture
async def connection(database: Database, target: DatabaseTarget) -> AsyncGenerator[Connection]:
    async with stepped_engine(database, target) as engine, database.connection() as connection:
        await engine.request_create()
        await connection.execute(_COPIES, FLEET)
        await connection.execute("VACUUM ANALYZE corral_instances")
        yield connection


async def plan_of(connection: Connection, wanted: InstanceFilter, *, after: str | None = None) -> str:
    """How PostgreSQL executed the query of a page, with the arguments as they are sent."""
    query, arguments = instance_pages.statement(wanted, limit=100, offset=0, after=after)
    rows = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {query}", *arguments)
    return "\n".join(row["QUERY PLAN"] for row in rows)


def pages_touched(plan: str) -> int:
    """By the whole query: its first line of buffers sums up the others."""
    found = _TOUCHED.search(plan)
    assert found is not None, plan
    return int(found[1]) + int(found[2] or 0)


async def test_labels_and_text_are_found_without_reading_every_record(connection: Connection) -> None:
    """
    A label by its index, also in the generic plan that a connection changes to after some executions.

    A text by reading each row, but no record from where PostgreSQL keeps large values, which took most of the time.
    """
    team = InstanceFilter(labels=(("team", "team-8"),))
    both = InstanceFilter(labels=(("team", "team-8"), ("env", "prod")))
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    plans = [
        await plan_of(connection, team),
        await plan_of(connection, both),
        await plan_of(connection, team, after="inst_n508"),
    ]
    found, total = await instance_pages.page(connection, team, limit=10, offset=0, after="inst_n508")

    for plan in plans:
        assert "corral_instances_by_label" in plan, plan
        assert "Seq Scan" not in plan, plan
        assert pages_touched(plan) < 200, plan  # a scan reads thousands
    assert list(found)[:2] == ["inst_n1008", "inst_n1508"]
    assert total == FLEET / 500

    rows = await connection.fetchval("SELECT pg_relation_size('corral_instances') / 8192")
    plan = await plan_of(connection, InstanceFilter(text="TEAM-8"))
    found, total = await instance_pages.page(connection, InstanceFilter(text="4090"), limit=1, offset=0)
    assert pages_touched(plan) <= 3 * rows, plan  # twice: for the page and for the total
    assert (len(found), total) == (1, FLEET + 1)
