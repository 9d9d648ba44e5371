"""Stops and deletes: when they are sent again, and what the instance says meanwhile."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from support.clock.waiting import until
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.cloud.novita.client import NovitaCloud
from corral.cloud.port import BeforeSend
from corral.domain.instance import InstanceId
from corral.domain.lifecycle.pending_action import reason, shown_failure
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.engine.observe.observations import Observations
from corral.jobs.registry import Priority
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

STOP, DELETE = OperationKind.STOP, OperationKind.DELETE
END = {STOP: Phase.EXITED, DELETE: Phase.TERMINATED}


def sent(engine: SteppedEngine, kind: OperationKind) -> int:
    counts = engine.sim.calls()["endpoints"].get(kind.value)
    return 0 if counts is None else counts["total"]


async def reasons(engine: SteppedEngine) -> list[str]:
    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT reason FROM corral_events ORDER BY id")
    return [row["reason"] for row in rows]


async def queued(engine: SteppedEngine) -> list[tuple[str, int]]:
    """The jobs that wait, in the order in which a worker takes them."""
    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT entrypoint, priority FROM corral_pgqueuer ORDER BY priority DESC, id")
    return [(row["entrypoint"], row["priority"]) for row in rows]


@pytest.mark.parametrize("kind", [STOP, DELETE])
async def test_its_jobs_go_before_every_create(engine: SteppedEngine, ready: InstanceId, kind: OperationKind) -> None:
    """The first as well as that of a repeat: every second that one waits is billed."""
    engine.sim.fault("ignore", on=kind.value, count=None)
    await engine.request_create()
    await engine.ask(kind, ready)
    first = await queued(engine)
    await engine.work()
    engine.clock.advance(2)
    engine.sim.advance(2)
    await engine.request_create()
    await engine.observer.list_account()
    repeat = await queued(engine)

    assert first == [("release_instance", Priority.URGENT), ("create_instance", Priority.HIGH)]
    assert repeat[0] == ("release_instance", Priority.URGENT)
    assert ("create_instance", Priority.HIGH) in repeat


@pytest.mark.parametrize("kind", [STOP, DELETE])
async def test_a_call_without_effect_is_repeated_by_the_next_observation(
    engine: SteppedEngine, ready: InstanceId, kind: OperationKind
) -> None:
    """The provider said yes and did nothing; the listing two seconds later shows it, so no clock is waited for."""
    engine.sim.fault("ignore", on=kind.value, count=1)
    await engine.ask(kind, ready)
    await engine.work()
    assert sent(engine, kind) == 1

    await engine.step()

    assert sent(engine, kind) == 2
    await engine.until(ready, END[kind], steps=4)


@pytest.mark.parametrize("kind", [STOP, DELETE])
@pytest.mark.parametrize(("fault", "pause"), [("ignore", 120), ("lost_reply", 16)])
async def test_without_observations_a_call_is_repeated_by_the_clock(
    engine: SteppedEngine, ready: InstanceId, fault: str, pause: int, kind: OperationKind
) -> None:
    """
    Two minutes after a call that the provider accepted, and 15 s after one whose outcome is not known.

    When hundreds of leases end in one minute, the rate limit admits no lookup of each within seconds: a repeat would
    take the calls that show the effect of the first.
    """
    engine.sim.fault(fault, on=kind.value, count=1)
    await engine.ask(kind, ready)
    await engine.work()
    assert sent(engine, kind) == 1
    seconds = 0
    while sent(engine, kind) == 1:
        seconds += 2
        engine.clock.advance(2)
        await engine.observer.sweep()
        await engine.work()

    assert seconds == pause


async def test_a_stop_that_waited_is_not_sent_to_a_machine_that_was_started_since(
    engine: SteppedEngine, ready: InstanceId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was paused before it sent the call; another one stopped the machine, and a user started it."""
    send = NovitaCloud.stop

    async def paused(cloud: NovitaCloud, provider_id: str, *, before_send: BeforeSend | None = None) -> None:
        monkeypatch.setattr(NovitaCloud, "stop", send)
        await engine.parts.reconciler.locks.release(ready)  # the other process ends the sessions of a paused one
        await send(cloud, provider_id)
        await engine.until(ready, Phase.EXITED)
        await engine.ask(OperationKind.START, ready)
        await engine.until(ready, Phase.READY)
        await send(cloud, provider_id, before_send=before_send)

    monkeypatch.setattr(NovitaCloud, "stop", paused)
    await engine.ask(STOP, ready)
    await engine.work()
    await engine.steps(5)

    assert sent(engine, STOP) == 1
    assert await engine.phase(ready) is Phase.READY


async def test_repeats_become_rarer_while_the_provider_shows_no_effect(
    engine: SteppedEngine, ready: InstanceId
) -> None:
    """A list that lags by minutes must not cause a call every two seconds."""
    engine.sim.fault("ignore", on="stop", count=None)
    await engine.ask(STOP, ready)
    await engine.work()
    times: list[int] = []
    for second in range(2, 130, 2):
        before = sent(engine, STOP)
        await engine.step()
        times += [second] * (sent(engine, STOP) - before)

    assert times[0] == 2, "the first observation"
    assert len(times) <= 7
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps == sorted(gaps)


async def test_an_observation_from_before_the_call_repeats_nothing(engine: SteppedEngine, ready: InstanceId) -> None:
    """A listing that was begun before the stop shows a running machine, as it must."""
    listing = await engine.observer.cloud.instances()
    began = engine.clock.now()
    engine.clock.advance(1)
    await engine.ask(STOP, ready)
    await engine.work()
    sightings = Observations(
        database=engine.database,
        queue=engine.queue,
        clock=engine.clock,
        policy=engine.observer.policy,
        installation=engine.installation,
        event_publisher=engine.event_publisher,
    )
    await sightings.record(listing, began=began)
    await engine.work()

    assert sent(engine, STOP) == 1


@pytest.mark.parametrize("kind", [STOP, DELETE])
async def test_a_call_that_was_not_carried_out_is_repeated_at_once(
    engine: SteppedEngine, ready: InstanceId, kind: OperationKind
) -> None:
    """Throttled, it was certainly not done: it goes out as soon as throttling ends, and says why until then."""
    engine.sim.fault("throttle", on=kind.value, count=None)
    await engine.ask(kind, ready)
    await engine.work()
    waiting = await engine.get(ready)
    shown = shown_failure(waiting)
    assert shown is not None
    assert "did not carry out" in shown.message
    assert "billed until" in (reason(waiting) or "")
    await engine.steps(20)

    engine.sim.no_more_faults()
    before = sent(engine, kind)
    await engine.step()

    assert sent(engine, kind) == before + 1
    after = await engine.until(ready, END[kind], steps=4)
    assert (after.pending.refused, after.failure) == (None, None)


async def test_a_stop_refused_while_booting_is_repeated_when_the_machine_is_seen_up(
    database: Database, target: DatabaseTarget
) -> None:
    """However often it was refused before: what it waits for is the machine, not the clock."""
    async with stepped_engine(database, target, boot_seconds=60, pull_seconds=60) as engine:
        instance_id = await engine.request_create()
        await engine.until(instance_id, Phase.STARTING)
        await engine.ask(STOP, instance_id)
        booting = {"toCreate", "creating", "pulling"}
        while engine.sim.status((await engine.get(instance_id)).provider_id or "") in booting:
            await engine.step()

        assert engine.sim.status((await engine.get(instance_id)).provider_id or "") != "running", (
            "stopped in the same two seconds"
        )
        await engine.until(instance_id, Phase.EXITED, steps=3)


async def test_a_refusal_is_shown_as_error_and_event(engine: SteppedEngine, ready: InstanceId) -> None:
    """A machine that cannot be deleted is billed; the refusal is published once, and the delete is repeated."""
    engine.sim.fault("deny", on="delete", count=None, message="locked by support")
    await engine.ask(DELETE, ready)
    await engine.work()
    await engine.steps(4)
    refused = await engine.get(ready)
    shown = shown_failure(refused)

    assert refused.phase is Phase.DELETING
    assert shown is not None
    assert shown.code == "NOVITA_API_ERROR"
    assert len([each for each in await reasons(engine) if "the provider refuses delete" in each]) == 1
    engine.sim.no_more_faults()
    await engine.until(ready, Phase.TERMINATED)
    assert shown_failure(await engine.get(ready)) is None


async def test_a_delete_that_waits_says_that_it_is_billed(engine: SteppedEngine, ready: InstanceId) -> None:
    """Before it is sent, after, and while nothing comes of it."""
    engine.sim.fault("ignore", on="delete", count=None)
    await engine.ask(DELETE, ready)
    about_to = reason(await engine.get(ready))
    await engine.work()
    accepted = reason(await engine.get(ready))
    await engine.step()
    ignored = reason(await engine.get(ready))

    assert about_to is not None
    assert about_to.startswith("the delete is about to be sent")
    assert accepted is not None
    assert "has not confirmed it" in accepted
    assert ignored is not None
    assert all(each.endswith("may be billed until the provider says that it is gone") for each in (about_to, accepted))


async def test_an_observation_during_the_call_does_not_hide_how_it_ended(
    engine: SteppedEngine, ready: InstanceId
) -> None:
    """The end of the call is recorded on top of what the observer wrote meanwhile."""
    engine.sim.fault("latency", on="stop", seconds=0.5)
    await engine.ask(STOP, ready)
    working = asyncio.create_task(engine.work())

    async def is_sent() -> bool:
        return (await engine.get(ready)).pending.sent_at is not None

    await until(is_sent, what="the stop")
    engine.sim.fault("freeze", name="corral-", seconds=1)
    await engine.observer.list_account()
    assert (await engine.get(ready)).observation.provider_status == "freezing"
    await working

    assert (await engine.get(ready)).pending.ended_at is not None
