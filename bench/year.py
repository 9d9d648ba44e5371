"""An old database: what a year of instances and events costs at the start and in a list."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import asyncpg

from bench import provider, requests, servers
from bench.comparison import Baseline, Comparison, Sample
from bench.environment import Environment
from bench.figures import Figure
from bench.provider import Provider

LIVE = 200
ENDED = 100_000
EVENTS_EACH = 10
TIMES = 20

START = Figure(name="start to ready", unit="s", target=3)
LIST = Figure(name="GET 100 instances, encoded again", unit="ms")
EVENTS = Figure(name="GET 100 events", unit="ms")

_FILL = (
    f"""
    INSERT INTO corral_instances
        (id, name, goal, phase, region, provider_id, generation, create_in_doubt, created_at, record, micro_usd)
    SELECT 'inst_y' || n, name, 'gone', 'terminated', region, 'y' || n, generation, false, at,
        record || jsonb_build_object(
            'id', 'inst_y' || n, 'phase', 'terminated', 'goal', 'gone', 'operation_id', 'op_y' || n,
            'provider_id', 'y' || n, 'created_at', to_jsonb(at), 'phase_since', to_jsonb(at)
        ), 0
    FROM (SELECT * FROM corral_instances LIMIT 1) AS one,
         (SELECT n, now() - n * interval '1 year' / {ENDED} AS at FROM generate_series(1, {ENDED}) AS n) AS days
    """,  # noqa: S608  # constants
    f"""
    INSERT INTO corral_operations (id, instance_id, kind, status, phases, created_at)
    SELECT 'op_y' || n, 'inst_y' || n, 'create', 'completed', '{{}}', now() - n * interval '1 year' / {ENDED}
    FROM generate_series(1, {ENDED}) AS n
    """,  # noqa: S608  # constants
    f"""
    INSERT INTO corral_events (seq, instance_id, type, status, operation_id, reason, at, data)
    SELECT (SELECT max(seq) FROM corral_events) + n, 'inst_y' || n / {EVENTS_EACH}, type, status,
           'op_y' || n / {EVENTS_EACH}, reason, now() - n * interval '1 year' / {ENDED * EVENTS_EACH}, data
    FROM (SELECT * FROM corral_events LIMIT 1) AS one, generate_series(1, {ENDED * EVENTS_EACH}) AS n
    """,  # noqa: S608  # constants
    "VACUUM ANALYZE",
)


@asynccontextmanager
async def comparisons(environment: Environment) -> AsyncGenerator[list[Comparison]]:
    """A database that ran for a year, beside one that has only the same live instances."""
    clock = environment.clock
    async with provider.simulated(environment.directory / "year-provider", clock, boot_seconds=0.1) as cloud:
        url = await environment.new_database_url("bench_year")
        new = await _measured(environment, cloud, url, fill=True)
        old = partial(_measured, environment, cloud, url)
        yield [
            Comparison(
                title=f"a year: {ENDED:,} ended instances, {ENDED * EVENTS_EACH:,} events",
                work=f"{LIVE} instances run; the same database is measured before and after a year of history is "
                "added, while the first sweep deletes what is older than 90 days.",
                figures=(START, LIST, EVENTS),
                corral=old,
                baselines=(Baseline(name="new database", side=partial(_same, new)),),
                rounds=1,
                warm_up=False,
            )
        ]


async def _same(sample: Sample) -> Sample:
    return sample


async def _measured(environment: Environment, cloud: Provider, url: str, *, fill: bool = False) -> Sample:
    clock = environment.clock
    async with servers.corral(
        environment.directory / "year",
        clock,
        port=None,
        role="all",
        DATABASE_URL=url,
        LOG_LEVEL="warning",
        **cloud.settings,
    ) as served:
        if fill:
            await requests.send(served.port, clock, requests=LIVE, in_flight=8, keyed=False)
            await requests.all_ready(served.port, clock, requests=LIVE, within=120)
        took: dict[str, list[float]] = {"/api/instances?limit=100": [], "/api/events?limit=100": []}
        for path, times in took.items():
            for _ in range(TIMES):
                began = clock.monotonic()
                await served.get(path)
                times.append((clock.monotonic() - began) * 1000)
                await clock.sleep(1.01)  # what is kept for a second is read again
    if fill:
        connection = await asyncpg.connect(url)
        try:
            for statement in _FILL:
                await connection.execute(statement)
        finally:
            await connection.close()
    lists, events = (sorted(times)[TIMES // 2] for times in took.values())
    return {START.name: served.came_up_in, LIST.name: lists, EVENTS.name: events}
