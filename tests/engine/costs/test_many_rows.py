"""Sums over a large table of usage are quick, whatever they are grouped by."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec
from support.clock.clocks import SteppedClock

from corral.domain.costs.totals import Cost, CostGrouping, GroupBy
from corral.domain.requests.costs.period import MOST_GROUPS, CostRequest
from corral.engine.costs.cost_queries import CostQueries
from corral.store.session.database import Database
from corral.store.tables.costs.totals import LeadingGroups, leading_groups, total_cost

ROWS = 100_000
TRIES = 5
LIMIT_SECONDS = 2.0
"""Twenty times of what is wanted, because test machines are busy."""
NOW = datetime(2029, 6, 1, tzinfo=UTC)
FILL = """
INSERT INTO corral_usage (instance_id, provider_id, kind, cause, unit_price, quantity, estimated, started_earliest,
                          started_latest, ended_earliest, ended_latest, confirmed_at, follows, product_name, region,
                          billing_mode, created_by, labels)
SELECT 'inst_' || n / 5, 'p' || n / 5, CASE WHEN n % 4 = 0 THEN 'disk' ELSE 'gpu' END,
       (ARRAY['booting', 'serving', 'idle', 'failed', 'deleting'])[n % 5 + 1], 4320000 + n % 7 * 1000, n % 8 + 1, false,
       began, began + interval '10 s', CASE WHEN n % 100 > 0 THEN began + interval '3 h' END,
       CASE WHEN n % 100 > 0 THEN began + interval '3 h 10 s' END, began + interval '3 h', n % 100 = 0,
       'RTX ' || n % 6, 'R-' || n % 9, 'spot', 'key-' || n % 20, jsonb_build_object('team', 'team-' || n % 30)
FROM generate_series(1, $1::int) AS n, LATERAL (SELECT $2::timestamptz - n * interval '20 s' AS began) AS at
"""


async def test_a_hundred_thousand_rows_are_summed_quickly(database: Database) -> None:
    """A month of a large fleet; every grouping adds up to the total."""
    since, taken = NOW - timedelta(days=31), dict[str, float]()
    async with database.connection() as connection:
        await connection.execute(FILL, ROWS, NOW)
        await connection.execute("ANALYZE corral_usage")
        whole = await total_cost(connection, since=since, until=NOW, now=NOW)
        for grouping in CostGrouping:
            group_by = GroupBy(grouping=grouping, label="team")
            times: list[float] = []
            found = LeadingGroups(groups=[], total=Cost(), count=0)
            for _ in range(TRIES):
                began = time.perf_counter()
                found = await leading_groups(connection, since=since, until=NOW, now=NOW, group_by=group_by, limit=1000)
                times.append(time.perf_counter() - began)
            assert found.total == whole
            every = await leading_groups(connection, since=since, until=NOW, now=NOW, group_by=group_by, limit=ROWS)
            assert sum((group.cost for group in every.groups), Cost()) == whole
            assert found.groups == every.groups[:1000]
            assert found.count == len(every.groups)
            taken[grouping] = min(times)
    assert max(taken.values()) < LIMIT_SECONDS, taken


async def test_other_requests_do_not_wait_for_the_days_of_many_groups(database: Database) -> None:
    """Adding up amounts takes longest, in a thread: the loop never stops for a third of the time."""
    costs = CostQueries(database, SteppedClock(NOW))
    async with database.connection() as connection:
        await connection.execute(FILL, ROWS // 5, NOW)
    loop = asyncio.get_running_loop()
    times = [loop.time()]

    def turn() -> None:
        times.append(loop.time())
        pending[0] = loop.call_later(0.005, turn)

    pending = [loop.call_later(0.005, turn)]
    by = GroupBy(grouping=CostGrouping.INSTANCE)
    request = CostRequest(since=NOW - timedelta(days=31), until=NOW, group_by=by, limit=MOST_GROUPS, per_day=True)
    answer = msgspec.json.decode(await costs.summary(request))
    pending[0].cancel()

    longest = max(after - before for before, after in pairwise(times))
    assert longest < (times[-1] - times[0]) / 3
    assert len(answer["groups"]) == ROWS // 25 + 1
