"""The observer's two duties beside each other: looking at the provider, and turning reminders into passes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from support.clock.waiting import until
from support.engines.engine_steps import look_up_changing
from support.engines.stepped_engine import SteppedEngine, observing, stepped_engine

from corral.cloud.port import Cloud, Listing, OnPage
from corral.domain.errors import CircuitOpenError
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.operation import OperationKind
from corral.engine.observe.direct_lookups import LOOKUPS_AT_ONCE
from corral.engine.observe.lookup_slots import HANGING_SECONDS
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import instances


async def test_wake_ups_do_not_wait_for_a_slow_listing(database: Database, target: DatabaseTarget) -> None:
    """With a small rate limit a listing takes minutes; due instances are reconciled meanwhile."""
    async with stepped_engine(database, target) as engine:
        instance = await engine.request_create()
        async with database.transaction() as connection:
            await connection.execute("DELETE FROM corral_pgqueuer")
            known = await engine.get(instance)
            due = engine.clock.now() + timedelta(seconds=1)
            await instances.update_many([replace(known, create=replace(known.create, number=0))], [due]).run(connection)
        hanging = engine.observer.cloud = _Hanging(engine.observer.cloud)
        running = asyncio.create_task(engine.observer.run())

        async def passes() -> bool:
            engine.clock.advance(0.5)
            async with database.connection() as connection:
                return bool(await connection.fetchval("SELECT count(*) FROM corral_pgqueuer"))

        await until(lambda: hanging.asked, what="a look")
        await until(passes, what="a pass")
        running.cancel()
        await asyncio.wait([running])

        assert hanging.asked == 1
        assert hanging.given_up


async def direct_lookups(engine: SteppedEngine, seconds: float, *, rounds: int = 1) -> None:
    """What a service does when its listing never ends."""
    for _ in range(rounds):
        engine.clock.advance(seconds)
        engine.sim.advance(seconds)
        await engine.observer.sweep()
        await look_up_changing(engine.observer)
        await engine.work()


async def test_without_any_listing_what_moves_gets_where_it_is_wanted(engine: SteppedEngine) -> None:
    """Up, down, up again and gone: a direct lookup shows as much as the hundredth page."""
    instance_id = await engine.request_create()
    await engine.work()
    for kind, phase in (
        (None, Phase.READY),
        (OperationKind.STOP, Phase.EXITED),
        (OperationKind.START, Phase.READY),
        (OperationKind.DELETE, Phase.TERMINATED),
    ):
        if kind is not None:
            await engine.ask(kind, instance_id)
            await engine.work()
        await direct_lookups(engine, 5, rounds=40)
        assert await engine.phase(instance_id) is phase

    calls = {name: one["total"] for name, one in engine.sim.calls()["endpoints"].items() if one["total"]}
    assert "list" not in calls
    assert (calls["create"], calls["stop"], calls["start"], calls["delete"]) == (1, 1, 1, 1)
    assert calls["get"] <= 7, "a direct lookup shows the endpoints too"


async def test_what_comes_up_is_looked_up_beside_a_crowd_that_ends(engine: SteppedEngine) -> None:
    """Leases that end in the same minute are more than a listing has pages, and are looked up one by one."""
    ending = [await engine.request_create() for _ in range(8)]
    for each in ending:
        await engine.until(each, Phase.READY)
    engine.sim.fault("ignore", on="stop", count=None)
    for each in ending:
        await engine.ask(OperationKind.STOP, each)
    created = await engine.request_create()
    await engine.work()
    await direct_lookups(engine, 5, rounds=2)

    assert await engine.phase(created) is Phase.READY


async def test_what_comes_up_does_not_wait_for_a_lookup_of_what_ends(engine: SteppedEngine, ready: InstanceId) -> None:
    """When the rate limit is used up, lookups wait for a long time."""
    engine.observer.cloud = _Hanging(engine.observer.cloud)
    await engine.ask(OperationKind.STOP, ready)
    await engine.work()
    async with observing(engine):
        await hanging_lookup(engine)
        created = await engine.request_create()
        await engine.work()
        assert await seconds_until(engine, created, Phase.READY) <= 15


@pytest.mark.parametrize(("hanging", "most_seconds"), [(1, 10.0), (LOOKUPS_AT_ONCE, HANGING_SECONDS + 15)])
async def test_lookups_that_hang_do_not_delay_those_of_others(
    engine: SteppedEngine, hanging: int, most_seconds: float
) -> None:
    """Several at once while the list hangs, though there are more than it has pages; if all hang, others after 10 s."""
    ending = [await engine.request_create() for _ in range(6)]
    for each in ending:
        await engine.until(each, Phase.READY)
    engine.observer.cloud = _Hanging(engine.observer.cloud)
    for each in ending:
        await engine.ask(OperationKind.STOP, each)
    await engine.work()
    async with observing(engine):
        await hanging_lookup(engine, hanging)
        waited = [await seconds_until(engine, each, Phase.EXITED) for each in ending[hanging:]]
        assert {await engine.phase(each) for each in ending[:hanging]} == {Phase.STOPPING}
        assert sum(waited) <= most_seconds
        assert await seconds_until(engine, ending[0], Phase.EXITED) <= 35


async def test_a_lookup_that_was_not_sent_is_made_when_calls_are_sent_again(
    engine: SteppedEngine, ready: InstanceId
) -> None:
    """It counted as made, and the next came after as long as the instance had been changing."""
    await engine.ask(OperationKind.STOP, ready)
    await engine.work()
    engine.clock.advance(60)
    engine.sim.advance(60)
    refusing = _Refusing(engine.observer.cloud)
    lookups = replace(engine.observer._ending, cloud=cast("Cloud", refusing))
    await lookups.run()
    refusing.is_open = False
    engine.clock.advance(2)
    await lookups.run()
    await engine.work()

    assert refusing.asked == 2
    assert await engine.phase(ready) is Phase.EXITED


async def hanging_lookup(engine: SteppedEngine, count: int = 1) -> None:
    """Let the next lookups hang, and wait until they do."""
    before = engine.sim.calls()["endpoints"]["get"]["total"]
    engine.sim.fault("hang", on="get", count=count)

    async def is_hanging() -> bool:
        _pass_time(engine)
        return bool(engine.sim.calls()["endpoints"]["get"]["total"] >= before + count)

    await until(is_hanging, what="a lookup")


async def seconds_until(engine: SteppedEngine, instance_id: InstanceId, phase: Phase) -> float:
    """How long it takes until the instance is in *phase*."""
    waited = 0.0

    async def is_there() -> bool:
        nonlocal waited
        waited += _pass_time(engine)
        await engine.work()
        return await engine.phase(instance_id) is phase

    await until(is_there, what=phase)
    return waited


async def test_a_deleted_instance_is_gone_after_two_failed_lookups_a_settle_time_apart(
    engine: SteppedEngine,
) -> None:
    """Not at the first "not found": the provider may be inconsistent for a while."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    await engine.request_delete(instance_id)
    await engine.work()
    await direct_lookups(engine, 60)
    assert (await engine.get(instance_id)).observation.lookup_failed_since is not None

    await direct_lookups(engine, 59)
    assert await engine.phase(instance_id) is Phase.DELETING

    await direct_lookups(engine, 1)
    assert await engine.phase(instance_id) is Phase.TERMINATED


async def test_a_failed_lookup_without_a_sent_delete_waits_for_a_listing(engine: SteppedEngine) -> None:
    """To be called vanished it must be missing there too."""
    instance_id = await engine.request_create()
    await engine.work()
    engine.sim.fault("vanish")
    await direct_lookups(engine, 5, rounds=40)

    assert await engine.phase(instance_id) is Phase.STARTING
    assert (await engine.get(instance_id)).observation.unlisted_since is None


async def test_a_failed_lookup_changes_nothing(engine: SteppedEngine) -> None:
    """And is tried again, later."""
    instance_id = await engine.request_create()
    await engine.work()
    engine.sim.fault("error_500", on="get", count=1)
    before = await engine.get(instance_id)
    await direct_lookups(engine, 5)
    assert await engine.get(instance_id) == before

    await direct_lookups(engine, 5)
    assert await engine.phase(instance_id) is Phase.READY


async def test_changing_instances_do_not_wait_for_a_slow_listing(engine: SteppedEngine) -> None:
    """Nor is it looked at by itself before the look has taken long."""
    instance_id = await engine.request_create()
    await engine.work()
    engine.observer.cloud = _Hanging(engine.observer.cloud)
    waited = 0.0

    async def is_seen() -> bool:
        nonlocal waited
        waited += _pass_time(engine)
        return (await engine.get(instance_id)).observation.sighting is not None

    async with observing(engine):
        await until(is_seen, what="a sighting")

    assert waited >= engine.observer.policy.slow_listing.total_seconds()


async def test_while_listings_fail_what_moves_is_looked_up(engine: SteppedEngine, ready: InstanceId) -> None:
    """A stop that the provider accepted and lost is sent again as soon as a lookup shows it, not by the clock."""
    engine.sim.fault("error_500", on="list", count=None)
    engine.sim.fault("ignore", on="stop", count=1)
    await engine.ask(OperationKind.STOP, ready)
    await engine.work()
    waited = 0.0

    async def is_stopped() -> bool:
        nonlocal waited
        waited += _pass_time(engine)
        await engine.work()
        return await engine.phase(ready) is Phase.EXITED

    async with observing(engine):
        await until(is_stopped, what="its stop")

    assert waited < engine.observer.policy.repeat_accepted.total_seconds()
    assert engine.sim.calls()["endpoints"]["stop"]["total"] == 2


async def test_with_quick_listings_no_instance_is_looked_up_directly(engine: SteppedEngine) -> None:
    """However long it boots: the listing shows it."""
    engine.sim.set(boot_seconds=600)
    instance_id = await engine.request_create()
    await engine.work()
    waited = 0.0

    async def is_over() -> bool:
        nonlocal waited
        waited += _pass_time(engine)
        return waited > 60 and (await engine.get(instance_id)).observation.sighting is Sighting.BOOTING

    async with observing(engine):
        await until(is_over, what="a minute")

    assert engine.sim.calls()["endpoints"]["list"]["total"] > 5
    assert "get" not in {name for name, one in engine.sim.calls()["endpoints"].items() if one["total"]}


@pytest.mark.parametrize(("takes", "rest"), [(0.0, 0.0), (3.0, 6.0), (30.0, 8.0)])
async def test_after_a_listing_there_is_time_for_other_work(engine: SteppedEngine, takes: float, rest: float) -> None:
    """However many creates wake it. How late it comes is not judged: here time passes while it works."""
    slow = engine.observer.cloud = _Slow(engine, takes)

    async def are_three() -> bool:
        engine.observer.wake()
        _pass_time(engine)
        return len(slow.ended) >= 3

    async with observing(engine):
        await until(are_three, what="three looks")

    pauses = [began - ended for began, ended in zip(slow.began[1:], slow.ended, strict=False)]
    assert min(pauses) >= rest


@pytest.mark.parametrize("phase", [Phase.READY, Phase.EXITED])
@pytest.mark.parametrize("is_known", [True, False])
async def test_what_rests_is_listed_often_while_the_provider_says_an_unknown_word(
    engine: SteppedEngine, phase: Phase, *, is_known: bool
) -> None:
    """What it does is not known, so the next word may come at any moment."""
    created = await engine.request_create()
    await engine.until(created, Phase.READY)
    if phase is Phase.EXITED:
        await engine.ask(OperationKind.STOP, created)
        await engine.until(created, phase)
    odd = engine.observer.cloud = _Odd(engine.observer.cloud, is_known=is_known)
    waited = 0.0

    async def is_over() -> bool:
        nonlocal waited
        waited += _pass_time(engine)
        await engine.work()
        return waited > 20

    async with observing(engine):
        await until(lambda: odd.listed, what="the first listing")
        await until(is_over, what="twenty seconds")

    assert (odd.listed > 1) is not is_known, "at rest it is listed every thirty seconds"


def _pass_time(engine: SteppedEngine) -> float:
    engine.clock.advance(0.5)
    engine.sim.advance(0.5)
    return 0.5


class _Slow:
    """A provider with a slow listing."""

    def __init__(self, engine: SteppedEngine, seconds: float) -> None:
        self._engine, self._cloud, self._seconds = engine, engine.observer.cloud, seconds
        self.began: list[float] = []
        self.ended: list[float] = []

    async def instances(self, _on_page: OnPage | None = None) -> Listing:
        self.began.append(self._engine.clock.monotonic())
        found = await self._cloud.instances()
        self._engine.clock.advance(self._seconds)
        self.ended.append(self._engine.clock.monotonic())
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)


class _Hanging:
    """A provider without an answer to a listing."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.asked = 0
        self.given_up = False

    async def instances(self, _on_page: OnPage | None = None) -> Listing:
        self.asked += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up = True
        raise AssertionError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)


class _Refusing:
    """A provider that is not called while it keeps failing."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.is_open = True
        self.asked = 0

    async def instance(self, provider_id: str) -> ProviderInstance | None:
        self.asked += 1
        if self.is_open:
            raise CircuitOpenError("the provider keeps failing", retry_after_seconds=5.0)
        return await self._cloud.instance(provider_id)


class _Odd:
    """A provider that has, unless *is_known*, a word of its own for every machine; counts listings."""

    def __init__(self, inner: Cloud, *, is_known: bool) -> None:
        self._inner = inner
        self._is_known = is_known
        self.listed = 0

    async def instances(self, _on_page: OnPage | None = None) -> Listing:
        self.listed += 1
        listing = await self._inner.instances()
        if self._is_known:
            return listing
        odd = (replace(seen, sighting=Sighting.MOVING, provider_status="hibernating") for seen in listing.instances)
        return replace(listing, instances=tuple(odd))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
