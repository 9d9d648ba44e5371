"""The throttle to the provider: order, concurrency, and an unavailable rate limit store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.provider.rate_limit_store import MemoryRateLimitStore

from corral.base.metrics import Metrics
from corral.cloud.rate_limit.lanes import Permit, ReadKind
from corral.cloud.rate_limit.permits_ahead import AHEAD_SECONDS
from corral.cloud.rate_limit.state import decoded
from corral.cloud.rate_limit.throttle import (
    LOCAL_SECONDS,
    MOST_IN_FLIGHT,
    MOST_READS_IN_FLIGHT,
    URGENT_IN_FLIGHT,
    Throttle,
)
from corral.domain.errors import CloudTransientError, StoreUnavailableError
from corral.store.installation.rate_limit import DatabaseRateLimitStore
from corral.store.session.database import Database

Result = TypeVar("Result")


class UnreliableStore(MemoryRateLimitStore):
    """A rate limit store that fails on request."""

    away = False
    asked = 0

    async def revise(self, change: Callable[[bytes | None, float], tuple[bytes, Result]]) -> Result:
        self.asked += 1
        if self.away:
            raise StoreUnavailableError("gone")
        return await super().revise(change)


async def permits_counted(store: MemoryRateLimitStore) -> int:
    """The permits of the last minute, as every process sees them."""
    return await store.revise(lambda raw, now: (raw or b"", sum(decoded(raw, now).counts)))


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(50):
        await asyncio.sleep(0)  # noqa: TID251  # gives way, does not wait


class Crowd:
    """Requests at a throttle, and in which order they were let through."""

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle
        self.through: list[str] = []
        self.refused: list[str] = []
        self.permits: list[Permit] = []
        self.tasks: list[asyncio.Task[None]] = []

    def come(self, name: str, *, change: bool, **options: Any) -> None:
        self.tasks.append(asyncio.create_task(self._one(name, change=change, **options)))

    async def _one(self, name: str, *, change: bool, **options: Any) -> None:
        try:
            permit = await self.throttle.enter(change=change, max_wait_seconds=30, **options)
        except CloudTransientError:
            self.refused.append(name)
            return
        self.permits.append(permit)
        self.through.append(name)

    def all_leave(self) -> None:
        for permit in self.permits:
            self.throttle.leave(permit)
        self.permits.clear()


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


async def test_a_create_overtakes_reads_that_came_before(clock: SteppedClock) -> None:
    """Within a process by the queue, against other processes by the reserve."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=10, clock=clock, metrics=Metrics()))
    for n in range(20):
        crowd.come(f"read {n}", change=False)
    await settle()
    for n in range(2):
        crowd.come(f"create {n}", change=True)
    await settle()
    await crowd.throttle.close()

    assert crowd.through == ["read 0", "create 0", "create 1"]


async def test_a_delete_is_sent_at_once_while_hundreds_of_creates_wait(clock: SteppedClock) -> None:
    """Creates never use the share that is kept for stops and deletes, and these go first when there is room."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=300, clock=clock, metrics=Metrics()))
    for n in range(800):
        crowd.come(f"create {n}", change=True)
    for _ in range(10):
        await settle()
        crowd.all_leave()
    assert len(crowd.through) == 300 - 30 - 12
    for n in range(14):
        crowd.come(f"delete {n}", change=True, is_urgent=True)
    await settle()
    at_once = [name for name in crowd.through if name.startswith("delete")]
    clock.advance(29.0)
    await settle()
    crowd.all_leave()
    for n in range(14):
        crowd.come(f"late delete {n}", change=True, is_urgent=True)
    clock.advance(34.0)
    await settle()
    await crowd.throttle.close()

    assert at_once == [f"delete {n}" for n in range(12)]
    assert [name for name in crowd.through if name.startswith("late")] == [f"late delete {n}" for n in range(14)]


async def test_a_delete_is_sent_while_as_many_creates_as_may_be_are_under_way(clock: SteppedClock) -> None:
    """Creates that hang keep their places until their time-out; a delete has places of its own."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=100_000, clock=clock, metrics=Metrics()))
    for n in range(MOST_IN_FLIGHT + 50):
        crowd.come(f"create {n}", change=True)
    await settle()
    assert len(crowd.through) == MOST_IN_FLIGHT
    for n in range(URGENT_IN_FLIGHT + 1):
        crowd.come(f"delete {n}", change=True, is_urgent=True)
    await settle()
    await crowd.throttle.close()

    assert crowd.through[MOST_IN_FLIGHT:] == [f"delete {n}" for n in range(URGENT_IN_FLIGHT)]


async def test_pages_of_a_list_and_other_reads_take_turns(clock: SteppedClock) -> None:
    """A lookup does not wait for all pages that were queued before, nor they for ever."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=100, clock=clock, metrics=Metrics()))
    for n in range(10):
        crowd.come(f"first {n}", change=False, kind=ReadKind.PAGE)
    await settle()
    for n in range(4):
        crowd.come(f"page {n}", change=False, kind=ReadKind.PAGE)
    for n in range(3):
        crowd.come(f"look {n}", change=False)
    for _ in range(12):
        clock.advance(1.0)
        await settle()
    await crowd.throttle.close()

    assert crowd.through[10:] == ["look 0", "page 0", "look 1", "look 2", "page 1", "page 2", "page 3"]


async def test_measurements_take_turns_with_lookups_and_pages(clock: SteppedClock) -> None:
    """A lookup does not wait for all measurements that were queued before, nor they for ever."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=100, clock=clock, metrics=Metrics()))
    for n in range(10):
        crowd.come(f"first {n}", change=False)
    await settle()
    for n in range(4):
        crowd.come(f"sample {n}", change=False, kind=ReadKind.SAMPLE)
    for n in range(3):
        crowd.come(f"look {n}", change=False)
        crowd.come(f"page {n}", change=False, kind=ReadKind.PAGE)
    for _ in range(12):
        clock.advance(1.0)
        await settle()
    await crowd.throttle.close()

    assert crowd.through[10:] == [
        *("look 0", "sample 0", "look 1", "look 2", "page 0"),
        *("sample 1", "page 1", "sample 2", "sample 3", "page 2"),
    ]


async def test_reads_continue_at_their_rate_as_time_passes(clock: SteppedClock) -> None:
    """A hundred a minute leave 76 for reads: ten at once, then one every second."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=100, clock=clock, metrics=Metrics()))
    for n in range(50):
        crowd.come(f"read {n}", change=False)
    await settle()
    at_once = len(crowd.through)
    for _ in range(20):
        clock.advance(1.0)
        await settle()
    await crowd.throttle.close()

    assert at_once == 10
    assert 28 <= len(crowd.through) <= 31


async def test_a_read_is_sent_out_of_its_share_while_creates_wait(clock: SteppedClock) -> None:
    """Also if it comes after the creates: it does not wait until they are served or give up."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=50, clock=clock, metrics=Metrics()))
    for n in range(60):
        crowd.come(f"create {n}", change=True)
    await settle()
    crowd.come("read", change=False)
    await settle()
    await crowd.throttle.close()

    assert crowd.through[-1] == "read"


async def test_awaited_lookups_go_before_other_reads_and_are_not_spaced(clock: SteppedClock) -> None:
    """A machine that runs is billed until it can be used."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=100, clock=clock, metrics=Metrics()))
    for n in range(20):
        crowd.come(f"read {n}", change=False)
    for n in range(30):
        crowd.come(f"lookup {n}", change=False, is_awaited=True)
    crowd.come("create", change=True)
    await settle()
    await crowd.throttle.close()

    assert crowd.through == ["create", *(f"lookup {n}" for n in range(30)), *(f"read {n}" for n in range(10))]


async def test_the_error_of_a_refused_caller_has_the_time_until_there_is_room(clock: SteppedClock) -> None:
    """A caller that came back later would leave room unused, one that came sooner would ask for nothing."""
    throttle = Throttle(MemoryRateLimitStore(clock), fixed=10, clock=clock, metrics=Metrics())
    crowd = Crowd(throttle)
    for n in range(9):
        crowd.come(f"create {n}", change=True)
    await settle()
    late = asyncio.create_task(throttle.enter(change=True, max_wait_seconds=20))
    await settle()
    clock.advance(20)
    with pytest.raises(CloudTransientError) as refused:
        await late
    await throttle.close()

    assert len(crowd.through) == 9
    assert refused.value.retry_after_seconds == pytest.approx(42, abs=1)


async def test_hanging_reads_do_not_keep_changes_back(clock: SteppedClock) -> None:
    """Only so many are under way at once, and some of those places are for changes."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=100_000, clock=clock, metrics=Metrics()))
    for n in range(200):
        crowd.come(f"read {n}", change=False)
    await settle()
    assert len(crowd.through) == MOST_READS_IN_FLIGHT

    for n in range(30):
        crowd.come(f"create {n}", change=True)
    await settle()
    assert len(crowd.through) == MOST_IN_FLIGHT

    crowd.all_leave()
    await settle()
    await crowd.throttle.close()

    assert [name for name in crowd.through if name.startswith("create")] == [f"create {n}" for n in range(30)]


async def test_patience_ends(clock: SteppedClock) -> None:
    """A caller gets Retry-After instead of waiting for an hour."""
    crowd = Crowd(Throttle(MemoryRateLimitStore(clock), fixed=1, clock=clock, metrics=Metrics()))
    for n in range(3):
        crowd.come(f"{n}", change=True)
    await settle()
    clock.advance(30)
    await settle()

    assert (crowd.through, crowd.refused) == (["0"], ["1", "2"])


async def test_a_cancelled_waiter_takes_no_slot(clock: SteppedClock) -> None:
    """Also when it leaves in the very moment of its turn."""
    throttle = Throttle(MemoryRateLimitStore(clock), fixed=100_000, clock=clock, metrics=Metrics())
    crowd = Crowd(throttle)
    for n in range(MOST_IN_FLIGHT * 3):
        crowd.come(f"{n}", change=True)
        for _ in range(n % 5):
            await asyncio.sleep(0)  # noqa: TID251  # gives way, does not wait
        crowd.tasks[-1].cancel()
    await settle()
    crowd.all_leave()
    for n in range(MOST_IN_FLIGHT):
        crowd.come(f"late {n}", change=True)
    await settle()

    assert len([name for name in crowd.through if name.startswith("late")]) == MOST_IN_FLIGHT


async def test_without_the_ledger_a_part_is_given_and_charged_later(clock: SteppedClock) -> None:
    """The database's absence must neither stop the creates nor let the limit be exceeded."""
    ledger, metrics = UnreliableStore(clock), Metrics()
    crowd = Crowd(Throttle(ledger, fixed=40, clock=clock, metrics=metrics))
    ledger.away = True
    for n in range(40):
        crowd.come(f"{n}", change=True)
    await settle()
    without = len(crowd.through)
    limit_without = crowd.throttle.limit
    asked = ledger.asked
    ledger.away = False
    clock.advance(6.0)
    crowd.come("one more", change=True)
    await settle()
    await crowd.throttle.close()

    assert (without, limit_without, asked) == (9, 10, 1)  # a tenth is kept for reads
    assert metrics.provider_permits_unshared._value.get() == 9
    assert len(crowd.through) == 35  # and one for stops and deletes


async def test_a_short_outage_of_the_limit_store_delays_calls_briefly(clock: SteppedClock) -> None:
    """Our copy may be used up for a minute; the ledger is asked again after a few seconds, and has room."""
    ledger = UnreliableStore(clock)
    crowd = Crowd(Throttle(ledger, fixed=100, clock=clock, metrics=Metrics()))
    for n in range(40):
        crowd.come(f"{n}", change=True)
    await settle()
    ledger.away = True
    crowd.come("late", change=True)
    await settle()
    ledger.away = False
    assert "late" not in crowd.through, "a quarter of the limit is used up"
    clock.advance(LOCAL_SECONDS + 1)
    await settle()
    await crowd.throttle.close()

    assert crowd.through[-1] == "late"


async def test_an_error_reaches_every_waiter(clock: SteppedClock) -> None:
    """A fault in the ledger is an error for the callers, not silence for ever."""

    class BrokenStore(MemoryRateLimitStore):
        async def revise(self, _change: Callable[[bytes | None, float], tuple[bytes, Result]]) -> Result:
            raise ZeroDivisionError

    throttle = Throttle(BrokenStore(clock), fixed=40, clock=clock, metrics=Metrics())
    with pytest.raises(ZeroDivisionError):
        await throttle.enter(change=False, max_wait_seconds=30)


async def test_processes_on_one_database_share_one_limit(database: Database, clock: SteppedClock) -> None:
    """Four throttles, forty creates each, thirty permits, four of them reserved: together, not each."""
    crowds = [
        Crowd(Throttle(DatabaseRateLimitStore(database), fixed=30, clock=clock, metrics=Metrics())) for _ in range(4)
    ]
    for crowd in crowds:
        for n in range(40):
            crowd.come(f"{n}", change=True)
    await until(lambda: all(crowd.throttle._short for crowd in crowds), what="each throttle waiting")
    for crowd in crowds:
        await crowd.throttle.close()
        await asyncio.gather(*crowd.tasks)

    assert sum(len(crowd.through) for crowd in crowds) == 26


async def test_a_process_that_hangs_with_the_limit_row_locked_stops_no_other(
    database: Database, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder that was suspended keeps the row locked; the others go on with their part."""
    throttle = Throttle(DatabaseRateLimitStore(database), fixed=40, clock=clock, metrics=Metrics())
    async with database.transaction() as holder:
        monkeypatch.setattr("corral.store.installation.rate_limit.LOCK_SECONDS", 0.1)
        await holder.execute("SELECT 1 FROM corral_provider_budget FOR UPDATE")
        throttle.leave(await throttle.enter(change=True, max_wait_seconds=30))
        while_held = throttle.limit
    monkeypatch.undo()
    clock.advance(6.0)
    throttle.leave(await throttle.enter(change=True, max_wait_seconds=30))

    assert (while_held, throttle.limit) == (10, 40)


async def test_a_closed_database_leaves_a_part_of_the_budget(database: Database, clock: SteppedClock) -> None:
    """Creates go on while the database restarts."""
    throttle = Throttle(DatabaseRateLimitStore(database), fixed=40, clock=clock, metrics=Metrics())
    throttle.leave(await throttle.enter(change=True, max_wait_seconds=30))
    await database.pool.close()
    throttle.leave(await throttle.enter(change=True, max_wait_seconds=30))

    assert throttle.limit == 10


async def test_a_throttled_process_slows_the_others(database: Database, clock: SteppedClock) -> None:
    """What one learns, all know with their next call."""
    one, other = (
        Throttle(DatabaseRateLimitStore(database), fixed=None, clock=clock, metrics=Metrics()) for _ in range(2)
    )
    permit = await one.enter(change=True, max_wait_seconds=30)
    await one.throttled(permit, None)
    one.leave(permit)
    other.leave(await other.enter(change=True, max_wait_seconds=30))

    assert (one.limit, other.limit) == (150, 150)


async def test_a_delete_that_is_refused_beyond_the_limit_leaves_it_as_it_is(clock: SteppedClock) -> None:
    """Every two seconds one is sent although the limit is used up; many of them must not make Corral slow."""
    throttle = Throttle(MemoryRateLimitStore(clock), fixed=None, clock=clock, metrics=Metrics())
    creates = [await throttle.enter(change=True, max_wait_seconds=1) for _ in range(100)]
    for permit in creates:
        throttle.leave(permit)
    await throttle.throttled(creates[-1], None)
    measured = throttle.limit
    for _ in range(10):
        permit = await throttle.enter(change=True, is_urgent=True, max_wait_seconds=1)
        await throttle.throttled(permit, None)
        throttle.leave(permit)
        clock.advance(2.0)

    assert throttle.limit == measured < 300


async def test_a_burst_takes_permits_ahead_and_the_store_counts_each(clock: SteppedClock) -> None:
    """Without them nearly every call of a burst would be a transaction on the state that all processes share."""
    ledger = UnreliableStore(clock)
    throttle = Throttle(ledger, fixed=100_000, clock=clock, metrics=Metrics())
    for n in range(200):
        throttle.leave(await throttle.enter(change=n % 2 == 0, is_awaited=n % 2 == 1, max_wait_seconds=1))
    revisions = ledger.asked

    assert revisions < 20
    assert await permits_counted(ledger) >= 200


async def test_permits_taken_ahead_are_not_used_later_nor_after_a_refusal(clock: SteppedClock) -> None:
    """They count in the minute in which they were taken; and a provider that throttles is not asked at once again."""
    ledger = UnreliableStore(clock)
    throttle = Throttle(ledger, fixed=100_000, clock=clock, metrics=Metrics())

    async def call() -> Permit:
        permit = await throttle.enter(change=True, max_wait_seconds=1)
        throttle.leave(permit)
        return permit

    async def revisions_of_a_call() -> int:
        before = ledger.asked
        await call()
        return ledger.asked - before

    for _ in range(10):
        await call()
    at_once = await revisions_of_a_call()
    clock.advance(AHEAD_SECONDS * 1.5)
    later = await revisions_of_a_call()
    for _ in range(10):
        await call()
    await throttle.throttled(await call(), None)
    refused = await revisions_of_a_call()

    assert (at_once, later, refused) == (0, 1, 1)


async def test_a_scarce_limit_is_not_spent_on_permits_ahead(clock: SteppedClock) -> None:
    """Below 300 calls a minute every permit is for a call that is made."""
    ledger = MemoryRateLimitStore(clock)
    throttle = Throttle(ledger, fixed=299, clock=clock, metrics=Metrics())
    for _ in range(20):
        throttle.leave(await throttle.enter(change=True, max_wait_seconds=1))

    assert await permits_counted(ledger) == 20
