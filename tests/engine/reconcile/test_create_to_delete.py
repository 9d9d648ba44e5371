"""From create to ready and deleted, over the real database and a simulated provider with faults."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import pytest
from support.engines.engine_steps import REQUEST
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.lifecycle.creation import reason
from corral.domain.lifecycle.phases import Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.operation import OperationKind
from corral.jobs.registry import JobId, JobRun
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import operations

OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"
"""Groups provider names into create requests, for the simulator's ledger."""

POLICY = Policy()


async def event_names(engine: SteppedEngine) -> list[str]:
    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT type FROM corral_events ORDER BY id")
    return [row["type"].removeprefix("instance.") for row in rows]


async def test_a_create_becomes_ready_and_each_change_is_announced_once(engine: SteppedEngine) -> None:
    """The whole road, with its milestones."""
    instance_id = await engine.request_create()
    ready = await engine.until(instance_id, Phase.READY)
    await engine.steps(5)

    assert await event_names(engine) == ["created", "starting", "running", "health_checking", "ready"]
    assert ready.placement is not None
    assert ready.placement.region == "CN-HK-01"
    assert ready.access is not None
    assert ready.access.ssh is not None
    assert {e.port for e in ready.endpoints} == {8888, 22}
    assert engine.sim.ledger(OURS).most_at_once == 1
    async with engine.database.connection() as connection:
        operation = await operations.load(connection, ready.operation_id)
    assert operation is not None
    assert operation.status == "completed"
    road = (
        "startRequested",
        "instanceStarting",
        "instanceRunning",
        "healthCheckStarted",
        "healthCheckCompleted",
        "ready",
    )
    stamps = [operation.stamps[step] for step in road]
    assert stamps == sorted(stamps)


async def test_the_job_of_an_observed_change_shows_instance_and_correlation(engine: SteppedEngine) -> None:
    """Which machine it is about, since when its instance is where it is, and how long that may take."""
    created = await engine.request_create(minutes=20)
    await engine.work()
    made = await engine.get(created)
    engine.clock.advance(2)
    engine.sim.advance(60)
    await engine.observer.list_account()
    (job,) = await engine.queue.find(type="monitor_instance")

    assert job.payload == {
        "instanceId": created,
        "novitaInstanceId": made.provider_id,
        "startTime": "2030-01-01T00:00:00.000Z",
        "maxWaitTime": 20 * 60 * 1000,
    }


async def test_a_create_costs_one_create_call_and_one_lookup(engine: SteppedEngine) -> None:
    """Everything else is the one listing for all."""
    requested = [await engine.request_create() for _ in range(5)]
    for instance_id in requested:
        await engine.until(instance_id, Phase.READY)

    endpoints = engine.sim.calls()["endpoints"]
    assert endpoints["create"]["total"] == 5
    assert endpoints["get"]["total"] == 5


async def test_what_is_paid_for_goes_before_what_is_not_bought_yet(engine: SteppedEngine) -> None:
    """
    A machine that is seen running, and one that is to be deleted, do not wait behind many creates.

    What is seen of one that is ready waits: it may be seen so a thousand times.
    """
    ready, booting, whim = await engine.request_create(), await engine.request_create(), await engine.request_create()
    for each in (ready, booting, whim):
        await engine.until(each, Phase.READY)
    await engine.ask(OperationKind.STOP, booting)
    await engine.until(booting, Phase.EXITED)
    await engine.ask(OperationKind.START, booting)
    await engine.work()

    crowd = [await engine.request_create() for _ in range(3)]
    await engine.sim.ask("/gpu/instance/stop", {"instanceId": (await engine.get(whim)).provider_id})
    engine.sim.advance(60)
    await engine.observer.list_account()
    await engine.request_delete(ready)

    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT payload FROM corral_pgqueuer ORDER BY priority DESC, id")
    waiting = [msgspec.json.decode(row["payload"])["instanceId"] for row in rows]
    assert waiting == [ready, booting, *crowd, whim], "the delete before everything"


async def test_a_machine_that_does_not_answer_soon_is_asked_again_in_its_turn(engine: SteppedEngine) -> None:
    """It overtook new creates, so they must not wait for it; then it gets all its time."""
    engine.sim.set(guest="hang")
    instance_id = await engine.request_create(replace(REQUEST, health=replace(REQUEST.health, timeout_ms=2000)))
    await engine.until(instance_id, Phase.STARTING)
    engine.sim.advance(60)
    await engine.observer.list_account()
    await engine.work()
    hurried = await engine.get(instance_id)

    engine.clock.advance(0.01)
    await engine.work()
    patient = await engine.get(instance_id)

    assert (hurried.phase, hurried.health) == (Phase.HEALTH_CHECKING, None)
    assert patient.health is not None
    assert {seen.error and seen.error.category for seen in patient.health.endpoints if seen.port == 8888} == {"timeout"}


async def test_a_machine_that_is_healthy_at_once_needs_one_write_to_be_ready(engine: SteppedEngine) -> None:
    """Its endpoints and the result of the first check are recorded together, with both events."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.STARTING)
    engine.sim.advance(60)
    await engine.observer.list_account()
    seen = await engine.get(instance_id)
    await engine.work()
    ready = await engine.get(instance_id)

    assert (ready.phase, ready.generation) == (Phase.READY, seen.generation + 1)
    assert {endpoint.port for endpoint in ready.endpoints} == {8888, 22}
    assert (await event_names(engine))[-3:] == ["running", "health_checking", "ready"]


async def test_changes_recorded_together_keep_the_times_at_which_they_happened(
    engine: SteppedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A health check starts when the endpoints are known, and is completed later."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.STARTING)
    engine.sim.advance(60)
    await engine.observer.list_account()
    stopped = engine.clock.now

    def running() -> datetime:
        engine.clock.advance(0.001)
        return stopped()

    monkeypatch.setattr(engine.clock, "now", running)
    await engine.work()

    async with engine.database.connection() as connection:
        rows = await connection.fetch("SELECT at FROM corral_events ORDER BY id DESC LIMIT 3")
        operation = await operations.load(connection, (await engine.get(instance_id)).operation_id)
    ready, checking, up = [row["at"] for row in rows]
    assert up < checking < ready
    assert operation is not None
    assert (operation.stamps["healthCheckStarted"], operation.stamps["ready"]) == (checking, ready)


async def test_the_endpoints_of_a_slow_machine_are_recorded_before_its_first_check_ends(
    database: Database, target: DatabaseTarget
) -> None:
    """They are of use before it is ready; the check is then made again, with all its time."""
    async with stepped_engine(database, target, policy=Policy(urgent_probe=timedelta(0))) as engine:
        instance_id = await engine.request_create()
        await engine.until(instance_id, Phase.STARTING)
        engine.sim.advance(60)
        await engine.observer.list_account()
        seen = await engine.get(instance_id)
        run = JobRun(id=JobId(1), type="monitor_instance", payload={"instanceId": instance_id}, attempt=1)
        await engine.parts.reconciler.reconcile(run)
        ready = await engine.get(instance_id)

    assert (ready.phase, ready.generation) == (Phase.READY, seen.generation + 2)


async def test_a_ready_instance_is_deleted_and_only_then_called_terminated(engine: SteppedEngine) -> None:
    """Gone means that the provider said so."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    await engine.request_delete(instance_id)
    await engine.work()
    assert await engine.phase(instance_id) is Phase.DELETING

    await engine.until(instance_id, Phase.TERMINATED)

    assert engine.sim.instances(OURS) == []


@pytest.mark.parametrize("fault", ["lost_reply", "500_but_created", "garbage", "truncated"])
async def test_a_create_with_a_lost_answer_is_found_and_adopted(engine: SteppedEngine, fault: str) -> None:
    """It happened; we did not hear. Nothing is asked twice."""
    engine.sim.fault(fault, on="create")
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)

    assert (await engine.get(instance_id)).create.number == 1
    assert engine.sim.ledger(OURS).most_at_once == 1


async def test_a_create_that_never_arrived_is_asked_again_only_when_that_is_sure(engine: SteppedEngine) -> None:
    """After a minute and two listings without it, under another name."""
    engine.sim.fault("hang", on="create", seconds=30)  # our patience ends first, and nothing was done
    instance_id = await engine.request_create()
    await engine.work()
    assert (await engine.get(instance_id)).create_in_doubt
    await engine.steps(10)
    assert (await engine.get(instance_id)).create.number == 1

    await engine.until(instance_id, Phase.READY)

    assert (await engine.get(instance_id)).create.number == 2
    assert engine.sim.ledger(OURS).most_at_once == 1


async def test_a_late_listing_does_not_lead_to_a_second_create(database: Database, target: DatabaseTarget) -> None:
    """The provider's list may lag forty seconds behind its own create."""
    async with stepped_engine(database, target, list_lag_seconds=40) as engine:
        engine.sim.fault("lost_reply", on="create")
        instance_id = await engine.request_create()
        await engine.until(instance_id, Phase.READY)

        assert (await engine.get(instance_id)).create.number == 1
        assert engine.sim.ledger(OURS).most_at_once == 1


@pytest.mark.parametrize(("fault", "attempts"), [("lost_reply", 1), ("error_500", 2)])
async def test_a_create_in_doubt_says_so_until_the_doubt_is_resolved(
    engine: SteppedEngine, fault: str, attempts: int
) -> None:
    """By the machine that is found, or by listings without it after the settle time."""
    engine.sim.set(list_lag_seconds=40)
    engine.sim.fault(fault, on="create")
    instance_id = await engine.request_create()
    await engine.work()
    doubtful = await engine.get(instance_id)
    assert doubtful.create.doubted_at is not None
    until = doubtful.create.doubted_at + POLICY.settle
    said = reason(doubtful, POLICY)
    assert said is not None
    assert f"by its provider name until {until:%Y-%m-%d %H:%M:%S} UTC" in said
    await engine.steps(15)
    assert reason(await engine.get(instance_id), POLICY) == said

    ready = await engine.until(instance_id, Phase.READY)
    assert (ready.create.number, reason(ready, POLICY)) == (attempts, None)


async def test_a_clock_set_ahead_does_not_lead_to_a_second_create(database: Database, target: DatabaseTarget) -> None:
    """However many listings there are by then: the observer's own timer shows that it has not waited long enough."""
    async with stepped_engine(database, target, list_lag_seconds=40) as engine:
        engine.sim.fault("lost_reply", on="create")
        instance_id = await engine.request_create()
        await engine.steps(3)
        assert (await engine.get(instance_id)).create.doubted_at is not None
        engine.clock.set_by(90)
        await engine.steps(10)
        assert (await engine.get(instance_id)).create.number == 1
        await engine.until(instance_id, Phase.READY)

        assert (await engine.get(instance_id)).create.number == 1
        assert engine.sim.ledger(OURS).most_at_once == 1


async def test_deleting_a_create_in_doubt_finds_it_first(engine: SteppedEngine) -> None:
    """Otherwise an unknown machine would be billed for ever."""
    engine.sim.fault("lost_reply", on="create")
    instance_id = await engine.request_create()
    await engine.work()
    await engine.request_delete(instance_id)
    await engine.until(instance_id, Phase.TERMINATED)

    assert engine.sim.instances(OURS) == []


async def test_a_shortage_leads_to_the_next_offer_at_once(engine: SteppedEngine) -> None:
    """In the same pass; and the failed offer is remembered for everybody."""
    first = await engine.request_create()
    await engine.until(first, Phase.READY)
    placement = (await engine.get(first)).placement
    assert placement is not None
    engine.sim.set_stock(placement.product_id, placement.cluster_id, 0)

    second = await engine.request_create()
    await engine.work()
    moved = await engine.get(second)

    assert moved.phase is Phase.STARTING
    assert moved.placement is not None
    assert moved.placement != placement


async def test_no_machine_anywhere_fails_with_every_offer_explained(engine: SteppedEngine) -> None:
    """At once if it is not to wait, and saying what was tried."""
    instance_id = await engine.request_create(replace(REQUEST, max_micro_usd_per_gpu=1, wait_for_capacity_seconds=0))
    await engine.work()
    failed = await engine.get(instance_id)

    assert failed.phase is Phase.FAILED
    assert failed.failure is not None
    assert failed.failure.code == "RESOURCE_CONSTRAINTS"
    assert len(failed.tried) >= 2
    assert all(tried.reason for tried in failed.tried)


async def test_an_image_that_cannot_be_pulled_fails_it_with_the_providers_reason(engine: SteppedEngine) -> None:
    """Without waiting for the deadline."""
    instance_id = await engine.request_create(replace(REQUEST, template_id="150034"))
    failed = await engine.until(instance_id, Phase.FAILED)

    assert failed.failure is not None
    assert failed.failure.code == "PROVISIONING_FAILED"


async def test_ten_minutes_without_the_provider_fail_nothing(engine: SteppedEngine) -> None:
    """Last known state stands; everything becomes ready after."""
    requested = [await engine.request_create() for _ in range(3)]
    await engine.work()
    before = [await engine.phase(instance_id) for instance_id in requested]
    engine.sim.fault("refuse", on="*", count=None)
    await engine.steps(20, seconds=30)
    assert [await engine.phase(instance_id) for instance_id in requested] == before

    engine.sim.no_more_faults()
    for instance_id in requested:
        await engine.until(instance_id, Phase.READY)


@pytest.mark.parametrize("fault", ["error_500", "garbage", "html", "truncated", "wrong_shape"])
async def test_one_bad_listing_changes_and_announces_nothing(engine: SteppedEngine, fault: str) -> None:
    """A hiccup is not news."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    before = await event_names(engine)
    engine.sim.fault(fault, on="list", count=2)
    await engine.steps(3)

    assert await engine.phase(instance_id) is Phase.READY
    assert await event_names(engine) == before


async def test_an_instance_is_called_vanished_after_two_listings(engine: SteppedEngine) -> None:
    """Missing in the list and by its id, twice, thirty seconds apart."""
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    engine.sim.fault("vanish", name=OURS)
    await engine.steps(3)
    assert await engine.phase(instance_id) is Phase.READY

    failed = await engine.until(instance_id, Phase.FAILED)

    assert failed.failure is not None
    assert failed.failure.code == "INSTANCE_VANISHED"
    assert (await event_names(engine))[-1] == "vanished"


async def test_too_slow_is_failed_and_heals_when_it_comes_up(database: Database, target: DatabaseTarget) -> None:
    """Late is not lost."""
    async with stepped_engine(database, target, boot_seconds=1800) as engine:
        instance_id = await engine.request_create()
        failed = await engine.until(instance_id, Phase.FAILED, steps=50, seconds=60)
        assert failed.failure is not None
        assert failed.failure.code == "STARTUP_TIMEOUT"

        await engine.until(instance_id, Phase.READY, steps=30, seconds=60)

        assert (await event_names(engine))[-4:] == ["timeout", "running", "health_checking", "ready"]


async def test_foreign_instances_are_never_touched(engine: SteppedEngine) -> None:
    """Not even one with a name similar to ours."""
    foreign = [await engine.sim.create(name) for name in ("worker", "corral-demo", "corral-000000-inst-zz-1")]
    instance_id = await engine.request_create()
    await engine.until(instance_id, Phase.READY)
    await engine.request_delete(instance_id)
    await engine.until(instance_id, Phase.TERMINATED)
    await engine.steps(5)

    assert {i.id for i in engine.sim.instances()} == set(foreign)


@pytest.mark.parametrize("auth_id", ["accepted", "refused"])
async def test_a_private_image_is_pulled_and_its_login_is_kept_nowhere(
    database: Database, target: DatabaseTarget, auth_id: str
) -> None:
    """The id of the login is sent; if the provider refuses that, the login itself, inside that one call."""
    async with stepped_engine(database, target, image_auth_id=auth_id) as engine:
        instance_id = await engine.request_create(replace(REQUEST, template_id="204511"))
        await engine.until(instance_id, Phase.READY)

        assert (await engine.get(instance_id)).create.number == (1 if auth_id == "accepted" else 2)
        assert engine.sim.ledger(OURS).most_at_once == 1
        async with database.connection() as connection:
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            for table in tables:
                rows = await connection.fetch(f"SELECT t::text AS row FROM {table['tablename']} AS t")  # noqa: S608
                assert not [row for row in rows if "s3cret-s3cret" in row["row"]], table["tablename"]


async def test_a_private_image_without_its_login_fails_with_the_reason(
    database: Database, target: DatabaseTarget
) -> None:
    """A login that was deleted at the provider has its own error code."""
    async with stepped_engine(database, target, image_auth_id="refused") as engine:
        private = {
            "Id": "999001",
            "name": "private",
            "image": "registry.example.com/acme/app:1",
            "imageAuth": "deleted",
            "ports": [],
        }
        template = engine.sim.odd_template(private)
        instance_id = await engine.request_create(replace(REQUEST, template_id=template))
        failed = await engine.until(instance_id, Phase.FAILED)

        assert failed.failure is not None
        assert failed.failure.code == "REGISTRY_AUTH_NOT_FOUND"


async def test_a_create_call_that_does_not_end_is_given_up(database: Database, target: DatabaseTarget) -> None:
    """After the longest create it is in doubt, with its end recorded, and searched for like any other."""
    async with stepped_engine(database, target, policy=Policy(longest_create=timedelta(seconds=0.5))) as engine:
        engine.sim.fault("hang", on="create", seconds=30)
        instance_id = await engine.request_create()
        await engine.work()
        given_up = await engine.get(instance_id)

        assert given_up.create_in_doubt
        assert given_up.create.ended


@pytest.mark.parametrize(("list_lag", "get_lag", "soon"), [(0, 0, True), (40, 0, True), (40, 40, False)])
async def test_one_deleted_right_after_its_creation_is_terminated_soon(
    database: Database, target: DatabaseTarget, list_lag: int, get_lag: int, *, soon: bool
) -> None:
    """If the provider accepted the delete: it knew the machine then, so "not found" is no lag."""
    async with stepped_engine(database, target, list_lag_seconds=list_lag, get_lag_seconds=get_lag) as engine:
        instance_id = await engine.request_create()
        await engine.work()
        await engine.request_delete(instance_id)
        await engine.work()
        await engine.steps(10)
        assert await engine.phase(instance_id) is (Phase.TERMINATED if soon else Phase.DELETING)

        await engine.until(instance_id, Phase.TERMINATED)
        assert engine.sim.instances(OURS) == []
