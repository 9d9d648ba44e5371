"""One request limit for several processes."""

from __future__ import annotations

from datetime import timedelta

from support.clock.clocks import SteppedClock

from corral.domain.rate_limit import RateLimit
from corral.engine.auth.request_counts import SharedRequestCounts
from corral.store.installation import request_counts
from corral.store.session.database import Database


async def test_processes_admit_so_many_together(database: Database) -> None:
    """After an exchange each continues from the sum; another caller is counted apart."""
    clock = SteppedClock()
    limits = [RateLimit(most=10, window_seconds=60) for _ in range(2)]
    shared = [SharedRequestCounts(limit, database, clock) for limit in limits]
    for limit in limits:
        for _ in range(4):
            limit.take("key_1", clock.monotonic())
    for each in shared:
        await each.share()
    limits[0].take("key_1", clock.monotonic())
    await shared[0].share()
    limits[1].take("key_1", clock.monotonic())
    await shared[1].share()

    stood = [limit.take("key_1", clock.monotonic()) for limit in limits]
    assert [standing.admitted for standing in stood] == [True, False]
    assert [standing.remaining for standing in stood] == [0, 0]
    assert limits[1].take("key_2", clock.monotonic()).remaining == 9


async def test_a_window_that_has_ended_begins_again(database: Database) -> None:
    """And is swept when its caller does not come back."""
    async with database.connection() as connection:
        first = await request_counts.add(connection, {"a": 3}, timedelta(seconds=60))
        again = await request_counts.add(connection, {"a": 4, "b": 1}, timedelta(seconds=60))
        await connection.execute("UPDATE corral_request_counts SET ends_at = now() - interval '1 s'")
        later = await request_counts.add(connection, {"a": 5}, timedelta(seconds=60))
        await request_counts.sweep(connection)
        left = await connection.fetch("SELECT caller FROM corral_request_counts")

    assert [(count.caller, count.used) for count in (*first, *again, *later)] == [
        ("a", 3),
        ("a", 7),
        ("b", 1),
        ("a", 5),
    ]
    assert 59 < again[0].resets_in_seconds < 60 < later[0].resets_in_seconds + 1
    assert [row["caller"] for row in left] == ["a"]
