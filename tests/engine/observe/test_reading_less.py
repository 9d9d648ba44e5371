"""Which part of the account is read, how often, and what a list that always changes still shows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from support.clock.waiting import until
from support.engines.stepped_engine import SteppedEngine, observing, stepped_engine

from corral.base.clock import SystemClock
from corral.cloud.port import Cloud, Listing, OnPage
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.engine.observe.lookup_slots import HANGING_SECONDS
from corral.store.installation import last_listing
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.session.notifications import Notifications

TICK = 0.5


def calls(engine: SteppedEngine, endpoint: str) -> int:
    return int(engine.sim.calls()["endpoints"].get(endpoint, {"total": 0})["total"])


async def after(engine: SteppedEngine, seconds: float, ready: InstanceId | None = None, *, tick: float = TICK) -> float:
    """Let time pass, tick by tick, for at least so long and until one is *ready*; returns how long it took."""
    passed = 0.0

    async def is_over() -> bool:
        nonlocal passed
        passed += tick
        engine.clock.advance(tick)
        engine.sim.advance(tick)
        engine.observer.wake()
        await engine.work()
        return passed >= seconds and (ready is None or await engine.phase(ready) is Phase.READY)

    await until(is_over, what=f"{seconds} s")
    return passed


async def fleet(engine: SteppedEngine, count: int) -> list[InstanceId]:
    made = [await engine.request_create() for _ in range(count)]
    for each in made:
        await engine.until(each, Phase.READY)
    return made


class Changing:
    """An account with a list that changes while it is read, and that lacks *skipped* machines."""

    def __init__(self, inner: Cloud) -> None:
        self._inner = inner
        self.skipped: set[str] = set()

    async def instances(self, on_page: OnPage | None = None) -> Listing:
        listing = await self._inner.instances()
        shown = tuple(seen for seen in listing.instances if seen.id not in self.skipped)
        if on_page is not None:
            on_page(shown)
        return replace(listing, instances=shown, complete=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_while_only_corral_is_to_act_the_account_is_listed_as_at_rest(engine: SteppedEngine) -> None:
    """A create that waits for stock has no machine: however many events there are, a listing shows nothing new."""
    ready, *_ = await fleet(engine, 1)
    engine.sim.set(stock=0)
    waiting = await engine.request_create()
    await engine.work()
    before = calls(engine, "list")
    async with observing(engine):
        await after(engine, 40)

    assert (await engine.phase(waiting), await engine.phase(ready)) == (Phase.CREATING, Phase.READY)
    assert calls(engine, "list") - before <= 2


async def test_a_create_that_waits_for_a_listing_has_the_leader_list_at_once(
    engine: SteppedEngine, database: Database, target: DatabaseTarget
) -> None:
    """Another process started while the leader rests: its first create must not wait for the idle interval."""
    await fleet(engine, 1)
    notices, heard = Notifications(target, SystemClock()), asyncio.Event()

    def on_notice(_key: str | None) -> None:
        engine.observer.request_listing()
        heard.set()

    notices.subscribe(last_listing.TOPIC, on_notice)
    listening = asyncio.create_task(notices.run())
    async with observing(engine):
        await after(engine, 5)
        await until(lambda: notices.listening)
        before = calls(engine, "list")
        async with stepped_engine(database, target, after=engine, listed=False) as other:
            waiting = await other.request_create()
            await other.work()
            await asyncio.wait_for(heard.wait(), 60)
            await after(engine, 4)
            assert calls(engine, "list") > before
            await other.until(waiting, Phase.READY)
    listening.cancel()
    await asyncio.wait([listening])


async def test_one_page_is_read_while_it_shows_everything_that_changes(engine: SteppedEngine) -> None:
    """The list begins with the newest machines; of three pages one is enough to see a machine boot."""
    engine.sim.set(page_size_cap=2)
    await fleet(engine, 5)
    engine.sim.set(boot_seconds=20)
    async with observing(engine):
        await after(engine, 2)
        before = calls(engine, "list")
        new = await engine.request_create()
        took = await after(engine, 20, ready=new)

    read_all = 4 * (1 + took / 30)
    assert calls(engine, "list") - before <= read_all + took / 2, "all pages every thirty seconds, else one"


async def test_a_machine_that_the_newest_page_lacks_is_seen_by_reading_all(engine: SteppedEngine) -> None:
    """The page proves nothing about the oldest machine, which is being stopped."""
    engine.sim.set(page_size_cap=2)
    oldest, *_ = await fleet(engine, 5)
    async with observing(engine):
        await after(engine, 2)
        await engine.ask(OperationKind.STOP, oldest)
        await after(engine, 40, tick=1)

    assert await engine.phase(oldest) is Phase.EXITED


@pytest.mark.parametrize("name_filter", ["contains", "nothing", "ignored"])
async def test_machines_of_others_do_not_hide_ours_whatever_the_name_filter_does(
    engine: SteppedEngine, name_filter: str
) -> None:
    """The filter is tried because others have machines; what it does not show is seen by reading all pages."""
    engine.sim.set(page_size_cap=2, name_filter=name_filter)
    await fleet(engine, 3)
    for n in range(4):
        await engine.sim.create(f"theirs-{n}")
    async with observing(engine):
        await after(engine, 2)
        await after(engine, 2, ready=await engine.request_create())


async def test_a_vanished_machine_is_noticed_although_no_listing_is_complete(engine: SteppedEngine) -> None:
    """No page shows it, and lookups by its id do not find it; every other machine stays as it is."""
    vanished, *others = await fleet(engine, 4)
    engine.observer.cloud = Changing(engine.observer.cloud)
    async with observing(engine):
        await after(engine, 60, tick=4)
        engine.sim.fault("vanish", name=vanished.replace("_", "-"))
        await after(engine, 200, tick=4)

    gone = await engine.get(vanished)
    assert gone.phase is Phase.FAILED
    assert gone.failure is not None
    assert gone.failure.code == "INSTANCE_VANISHED"
    assert [await engine.phase(each) for each in others] == [Phase.READY] * 3


async def test_a_machine_that_the_pages_always_skip_is_found_by_its_id(engine: SteppedEngine) -> None:
    """No false alarm, and the lookups are few: one for each time that the list is read."""
    skipped, *_ = await fleet(engine, 4)
    changing = engine.observer.cloud = Changing(engine.observer.cloud)
    changing.skipped = {str((await engine.get(skipped)).provider_id)}
    before = calls(engine, "get")
    async with observing(engine):
        await after(engine, 240, tick=4)

    assert await engine.phase(skipped) is Phase.READY
    assert (await engine.get(skipped)).observation.unlisted_since is None
    assert 1 <= calls(engine, "get") - before <= 1 + 240 // 30  # the list is read at once, and then every 30 s


async def test_changing_instances_do_not_wait_for_lookups_of_unseen_machines(engine: SteppedEngine) -> None:
    """When the rate limit is used up, these lookups wait for a long time."""
    machines = await fleet(engine, 2)
    changing = engine.observer.cloud = Changing(engine.observer.cloud)
    changing.skipped = {str((await engine.get(each)).provider_id) for each in machines}
    before = calls(engine, "get")
    engine.sim.fault("hang", on="get", count=1)
    seconds = 0

    async def is_lookup_hanging() -> bool:
        await after(engine, 4, tick=4)
        return calls(engine, "get") > before

    async def is_stopped() -> bool:
        nonlocal seconds
        seconds += 1
        await after(engine, 1, tick=1)
        return await engine.phase(machines[0]) is Phase.EXITED

    async with observing(engine):
        await until(is_lookup_hanging, what="a lookup of an unseen machine")
        await engine.ask(OperationKind.STOP, machines[0])
        await until(is_stopped, what="the stop")

    assert seconds <= 20


async def test_a_lookup_of_an_unseen_machine_that_hangs_does_not_delay_the_next(engine: SteppedEngine) -> None:
    """Machines that vanished would be noticed minutes later for each that hangs."""
    machines = await fleet(engine, 2)
    changing = engine.observer.cloud = Changing(engine.observer.cloud)
    changing.skipped = {str((await engine.get(each)).provider_id) for each in machines}
    before = calls(engine, "get")
    engine.sim.fault("hang", on="get", count=1)
    seconds = 0

    async def are_both_looked_up() -> bool:
        nonlocal seconds
        await after(engine, 1, tick=1)
        seconds += calls(engine, "get") > before
        return calls(engine, "get") == before + 2

    async with observing(engine):
        await until(are_both_looked_up, what="two lookups")

    assert seconds <= HANGING_SECONDS + 10


async def test_a_create_in_doubt_is_left_alone_once_it_is_settled(engine: SteppedEngine) -> None:
    """Each further count would change the record, and discard the reconcile that is about to create it again."""
    await fleet(engine, 1)
    engine.sim.fault("error_500", on="create")
    lost = await engine.request_create()
    await engine.work()
    for _ in range(12):
        engine.clock.advance(30)
        engine.sim.advance(30)
        await engine.observer.look_up_names()
    settled = await engine.get(lost)
    await engine.observer.sweep()
    await engine.until(lost, Phase.READY)

    assert settled.create.listings_without == engine.observer.policy.settle_listings
    assert calls(engine, "create") == 3


async def test_quick_listings_that_are_never_complete_show_all_but_that_a_machine_is_gone(
    engine: SteppedEngine,
) -> None:
    """A machine that boots is on the pages; one that was deleted is looked up by its id."""
    deleted, *_ = await fleet(engine, 2)
    engine.sim.set(boot_seconds=30)
    engine.observer.cloud = Changing(engine.observer.cloud)
    booting = await engine.request_create()
    before = calls(engine, "get")
    async with observing(engine):
        await after(engine, 20)
        assert (await engine.phase(booting), calls(engine, "get") - before) == (Phase.STARTING, 0)
        await after(engine, 20, ready=booting)
        assert calls(engine, "get") - before == 1, "for its endpoints"
        await engine.request_delete(deleted)
        await after(engine, 90, tick=1)

    assert await engine.phase(deleted) is Phase.TERMINATED
