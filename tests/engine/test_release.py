"""Stops and deletes: when they are sent again, and what the instance says meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator

import pytest
from support.stepped_engine import Herd, herding
from support.waiting import until

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.release import reason, shown_failure
from corral.domain.lifecycle.tables import Phase
from corral.domain.operation import OperationKind
from corral.engine.observe.observations import Observations
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

STOP, DELETE = OperationKind.STOP, OperationKind.DELETE
END = {STOP: Phase.EXITED, DELETE: Phase.TERMINATED}


@pytest.fixture
async def herd(database: Database, target: DatabaseTarget) -> AsyncGenerator[Herd]:
    async with herding(database, target) as herd:
        yield herd


@pytest.fixture
async def ready(herd: Herd) -> InstanceId:
    wish = await herd.wish()
    await herd.until(wish, Phase.READY)
    return wish


def sent(herd: Herd, kind: OperationKind) -> int:
    counts = herd.sim.calls()["endpoints"].get(kind.value)
    return 0 if counts is None else counts["total"]


async def reasons(herd: Herd) -> list[str]:
    async with herd.database.connection() as connection:
        rows = await connection.fetch("SELECT reason FROM corral_events ORDER BY id")
    return [row["reason"] for row in rows]


@pytest.mark.parametrize("kind", [STOP, DELETE])
async def test_a_call_without_effect_is_repeated_by_the_next_observation(
    herd: Herd, ready: InstanceId, kind: OperationKind
) -> None:
    """The provider said yes and did nothing; the listing two seconds later shows it, so no clock is waited for."""
    herd.sim.fault("ignore", on=kind.value, count=1)
    await herd.ask(kind, ready)
    await herd.work()
    assert sent(herd, kind) == 1

    await herd.step()

    assert sent(herd, kind) == 2
    await herd.until(ready, END[kind], steps=4)


async def test_repeats_become_rarer_while_the_provider_shows_no_effect(herd: Herd, ready: InstanceId) -> None:
    """A list that lags by minutes must not cause a call every two seconds."""
    herd.sim.fault("ignore", on="stop", count=None)
    await herd.ask(STOP, ready)
    await herd.work()
    times: list[int] = []
    for second in range(2, 130, 2):
        before = sent(herd, STOP)
        await herd.step()
        times += [second] * (sent(herd, STOP) - before)

    assert times[0] == 2, "the first observation"
    assert len(times) <= 7
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps == sorted(gaps)


async def test_an_observation_from_before_the_call_repeats_nothing(herd: Herd, ready: InstanceId) -> None:
    """A listing that was begun before the stop shows a running machine, as it must."""
    listing = await herd.observer.cloud.instances()
    began = herd.clock.now()
    herd.clock.advance(1)
    await herd.ask(STOP, ready)
    await herd.work()
    sightings = Observations(
        database=herd.database,
        queue=herd.queue,
        clock=herd.clock,
        policy=herd.observer.policy,
        installation=herd.installation,
        tell=herd.news.tell,
    )
    await sightings.record(listing, began=began)
    await herd.work()

    assert sent(herd, STOP) == 1


@pytest.mark.parametrize("kind", [STOP, DELETE])
async def test_a_call_that_was_not_carried_out_is_repeated_at_once(
    herd: Herd, ready: InstanceId, kind: OperationKind
) -> None:
    """Throttled, it was certainly not done: it goes out as soon as throttling ends, and says why until then."""
    herd.sim.fault("throttle", on=kind.value, count=None)
    await herd.ask(kind, ready)
    await herd.work()
    waiting = await herd.get(ready)
    shown = shown_failure(waiting)
    assert shown is not None
    assert "did not carry out" in shown.message
    assert "billed until" in (reason(waiting) or "")
    await herd.steps(20)

    herd.sim.no_more_faults()
    before = sent(herd, kind)
    await herd.step()

    assert sent(herd, kind) == before + 1
    after = await herd.until(ready, END[kind], steps=4)
    assert (after.refused, after.failure) == (None, None)


async def test_a_stop_refused_while_booting_is_repeated_when_the_machine_is_seen_up(
    database: Database, target: DatabaseTarget
) -> None:
    """However often it was refused before: what it waits for is the machine, not the clock."""
    async with herding(database, target, boot_seconds=60, pull_seconds=60) as herd:
        wish = await herd.wish()
        await herd.until(wish, Phase.STARTING)
        await herd.ask(STOP, wish)
        booting = {"toCreate", "creating", "pulling"}
        while herd.sim.status((await herd.get(wish)).provider_id or "") in booting:
            await herd.step()

        assert herd.sim.status((await herd.get(wish)).provider_id or "") != "running", "stopped in the same two seconds"
        await herd.until(wish, Phase.EXITED, steps=3)


async def test_a_refusal_is_shown_as_error_and_event(herd: Herd, ready: InstanceId) -> None:
    """A machine that cannot be deleted is a bill; the refusal is told once, and the delete goes on being sent."""
    herd.sim.fault("deny", on="delete", count=None, message="locked by support")
    await herd.ask(DELETE, ready)
    await herd.work()
    await herd.steps(4)
    refused = await herd.get(ready)
    shown = shown_failure(refused)

    assert refused.phase is Phase.DELETING
    assert shown is not None
    assert shown.code == "NOVITA_API_ERROR"
    assert len([each for each in await reasons(herd) if "the provider refuses delete" in each]) == 1
    herd.sim.no_more_faults()
    await herd.until(ready, Phase.TERMINATED)
    assert shown_failure(await herd.get(ready)) is None


async def test_a_delete_that_waits_says_that_it_is_billed(herd: Herd, ready: InstanceId) -> None:
    """Before it is sent, after, and while nothing comes of it."""
    herd.sim.fault("ignore", on="delete", count=None)
    await herd.ask(DELETE, ready)
    about_to = reason(await herd.get(ready))
    await herd.work()
    accepted = reason(await herd.get(ready))
    await herd.step()
    ignored = reason(await herd.get(ready))

    assert about_to is not None
    assert about_to.startswith("the delete is about to be sent")
    assert accepted is not None
    assert "has not confirmed it" in accepted
    assert ignored is not None
    assert all(each.endswith("may be billed until the provider says that it is gone") for each in (about_to, accepted))


async def test_an_observation_during_the_call_does_not_hide_how_it_ended(herd: Herd, ready: InstanceId) -> None:
    """The end of the call is recorded on top of what the observer wrote meanwhile."""
    herd.sim.fault("latency", on="stop", seconds=0.5)
    await herd.ask(STOP, ready)
    working = asyncio.create_task(herd.work())

    async def is_sent() -> bool:
        return (await herd.get(ready)).acted_at is not None

    await until(is_sent, what="the stop")
    herd.sim.fault("freeze", name="corral-", seconds=1)
    await herd.observer.look()
    assert (await herd.get(ready)).word == "freezing"
    await working

    assert (await herd.get(ready)).answered_at is not None
