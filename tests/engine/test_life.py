"""From wish to ready and to gone again, over the real database and a simulated provider that can hurt."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from support.stepped_engine import ORDER, Herd, herding

from corral.domain.lifecycle.creation import reason
from corral.domain.lifecycle.decide import Policy
from corral.domain.lifecycle.tables import Phase
from corral.domain.operation import OperationKind
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import operations

OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"
"""Groups provider names into wishes, for the simulator's ledger."""

POLICY = Policy()


@pytest.fixture
async def herd(database: Database, target: DatabaseTarget) -> AsyncGenerator[Herd]:
    async with herding(database, target) as herd:
        yield herd


async def told(herd: Herd) -> list[str]:
    async with herd.database.connection() as connection:
        rows = await connection.fetch("SELECT type FROM corral_events ORDER BY id")
    return [row["type"].removeprefix("instance.") for row in rows]


async def test_a_wish_becomes_ready_and_each_change_is_told_once(herd: Herd) -> None:
    """The whole road, with its milestones."""
    wish = await herd.wish()
    ready = await herd.until(wish, Phase.READY)
    await herd.steps(5)

    assert await told(herd) == ["created", "starting", "running", "health_checking", "ready"]
    assert ready.placement is not None
    assert ready.placement.region == "CN-HK-01"
    assert ready.ways is not None
    assert ready.ways.ssh is not None
    assert {e.port for e in ready.endpoints} == {8888, 22}
    assert herd.sim.ledger(OURS).most_at_once == 1
    async with herd.database.connection() as connection:
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


async def test_it_costs_one_create_and_one_close_look(herd: Herd) -> None:
    """Everything else is the one listing for all."""
    wishes = [await herd.wish() for _ in range(5)]
    for wish in wishes:
        await herd.until(wish, Phase.READY)

    endpoints = herd.sim.calls()["endpoints"]
    assert endpoints["create"]["total"] == 5
    assert endpoints["get"]["total"] == 5


async def test_what_is_paid_for_goes_before_what_is_not_bought_yet(herd: Herd) -> None:
    """
    A machine that is seen running, and one that is to be deleted, do not wait behind a crowd of wishes.

    What is seen of one that is ready waits: it may be seen so a thousand times.
    """
    ready, booting, whim = await herd.wish(), await herd.wish(), await herd.wish()
    for each in (ready, booting, whim):
        await herd.until(each, Phase.READY)
    await herd.ask(OperationKind.STOP, booting)
    await herd.until(booting, Phase.EXITED)
    await herd.ask(OperationKind.START, booting)
    await herd.work()

    crowd = [await herd.wish() for _ in range(3)]
    await herd.sim.ask("/gpu/instance/stop", {"instanceId": (await herd.get(whim)).provider_id})
    herd.sim.advance(60)
    await herd.observer.look()
    await herd.unwish(ready)

    async with herd.database.connection() as connection:
        rows = await connection.fetch("SELECT payload FROM corral_pgqueuer ORDER BY priority DESC, id")
    waiting = [msgspec.json.decode(row["payload"])["instanceId"] for row in rows]
    assert waiting == [ready, booting, *crowd, whim], "the delete before everything"


async def test_a_machine_that_does_not_answer_soon_is_asked_again_in_its_turn(herd: Herd) -> None:
    """It overtook those who want new ones, so they are not to wait for it; then it is given all its time."""
    herd.sim.set(guest="hang")
    wish = await herd.wish(replace(ORDER, health=replace(ORDER.health, timeout_ms=2000)))
    await herd.until(wish, Phase.STARTING)
    herd.sim.advance(60)
    await herd.observer.look()
    await herd.work()
    hurried = await herd.get(wish)

    herd.clock.advance(0.01)
    await herd.work()
    patient = await herd.get(wish)

    assert (hurried.phase, hurried.health) == (Phase.HEALTH_CHECKING, None)
    assert patient.health is not None
    assert {seen.error and seen.error.category for seen in patient.health.endpoints if seen.port == 8888} == {"timeout"}


async def test_a_ready_instance_is_deleted_and_only_then_called_terminated(herd: Herd) -> None:
    """Gone means that the provider said so."""
    wish = await herd.wish()
    await herd.until(wish, Phase.READY)
    await herd.unwish(wish)
    await herd.work()
    assert await herd.phase(wish) is Phase.DELETING

    await herd.until(wish, Phase.TERMINATED)

    assert herd.sim.instances(OURS) == []


@pytest.mark.parametrize("fault", ["lost_reply", "500_but_created", "garbage", "truncated"])
async def test_a_create_whose_answer_was_lost_is_found_and_adopted(herd: Herd, fault: str) -> None:
    """It happened; we did not hear. Nothing is asked twice."""
    herd.sim.fault(fault, on="create")
    wish = await herd.wish()
    await herd.until(wish, Phase.READY)

    assert (await herd.get(wish)).attempt == 1
    assert herd.sim.ledger(OURS).most_at_once == 1


async def test_a_create_that_never_arrived_is_asked_again_only_when_that_is_sure(herd: Herd) -> None:
    """After a minute and two listings without it, under another name."""
    herd.sim.fault("hang", on="create", seconds=30)  # our patience ends first, and nothing was done
    wish = await herd.wish()
    await herd.work()
    assert (await herd.get(wish)).create_in_doubt
    await herd.steps(10)
    assert (await herd.get(wish)).attempt == 1

    await herd.until(wish, Phase.READY)

    assert (await herd.get(wish)).attempt == 2
    assert herd.sim.ledger(OURS).most_at_once == 1


async def test_a_late_listing_does_not_lead_to_a_second_create(database: Database, target: DatabaseTarget) -> None:
    """The provider's list may lag forty seconds behind its own create."""
    async with herding(database, target, list_lag_seconds=40) as herd:
        herd.sim.fault("lost_reply", on="create")
        wish = await herd.wish()
        await herd.until(wish, Phase.READY)

        assert (await herd.get(wish)).attempt == 1
        assert herd.sim.ledger(OURS).most_at_once == 1


@pytest.mark.parametrize(("fault", "attempts"), [("lost_reply", 1), ("error_500", 2)])
async def test_a_create_in_doubt_says_so_until_the_doubt_is_resolved(herd: Herd, fault: str, attempts: int) -> None:
    """By the machine that is found, or by listings without it after the settle time."""
    herd.sim.set(list_lag_seconds=40)
    herd.sim.fault(fault, on="create")
    wish = await herd.wish()
    await herd.work()
    doubtful = await herd.get(wish)
    assert doubtful.doubted_at is not None
    until = doubtful.doubted_at + POLICY.settle
    said = reason(doubtful, POLICY)
    assert said is not None
    assert f"by its provider name until {until:%Y-%m-%d %H:%M:%S} UTC" in said
    await herd.steps(15)
    assert reason(await herd.get(wish), POLICY) == said

    ready = await herd.until(wish, Phase.READY)
    assert (ready.attempt, reason(ready, POLICY)) == (attempts, None)


async def test_a_clock_set_ahead_does_not_lead_to_a_second_create(database: Database, target: DatabaseTarget) -> None:
    """However many listings there are by then: who looks knows by its own watch that it has not waited long enough."""
    async with herding(database, target, list_lag_seconds=40) as herd:
        herd.sim.fault("lost_reply", on="create")
        wish = await herd.wish()
        await herd.steps(3)
        assert (await herd.get(wish)).doubted_at is not None
        herd.clock.set_by(90)
        await herd.steps(10)
        assert (await herd.get(wish)).attempt == 1
        await herd.until(wish, Phase.READY)

        assert (await herd.get(wish)).attempt == 1
        assert herd.sim.ledger(OURS).most_at_once == 1


async def test_deleting_a_create_in_doubt_finds_it_first(herd: Herd) -> None:
    """Otherwise a machine nobody knows of would be billed for ever."""
    herd.sim.fault("lost_reply", on="create")
    wish = await herd.wish()
    await herd.work()
    await herd.unwish(wish)
    await herd.until(wish, Phase.TERMINATED)

    assert herd.sim.instances(OURS) == []


async def test_a_shortage_leads_to_the_next_offer_at_once(herd: Herd) -> None:
    """In the same pass; and the failed offer is remembered for everybody."""
    first = await herd.wish()
    await herd.until(first, Phase.READY)
    placement = (await herd.get(first)).placement
    assert placement is not None
    herd.sim.set_stock(placement.product_id, placement.cluster_id, 0)

    second = await herd.wish()
    await herd.work()
    moved = await herd.get(second)

    assert moved.phase is Phase.STARTING
    assert moved.placement is not None
    assert moved.placement != placement


async def test_no_machine_anywhere_fails_with_every_offer_explained(herd: Herd) -> None:
    """At once if it is not to wait, and saying what was tried."""
    wish = await herd.wish(replace(ORDER, max_micro_usd_per_gpu=1, wait_for_capacity_seconds=0))
    await herd.work()
    failed = await herd.get(wish)

    assert failed.phase is Phase.FAILED
    assert failed.failure is not None
    assert failed.failure.code == "RESOURCE_CONSTRAINTS"
    assert len(failed.tried) >= 2
    assert all(tried.reason for tried in failed.tried)


async def test_an_image_that_cannot_be_pulled_fails_it_with_the_providers_reason(herd: Herd) -> None:
    """Without waiting for the deadline."""
    wish = await herd.wish(replace(ORDER, template_id="150034"))
    failed = await herd.until(wish, Phase.FAILED)

    assert failed.failure is not None
    assert failed.failure.code == "PROVISIONING_FAILED"


async def test_ten_minutes_without_the_provider_fail_nothing(herd: Herd) -> None:
    """Last known state stands; everything becomes ready after."""
    wishes = [await herd.wish() for _ in range(3)]
    await herd.work()
    before = [await herd.phase(wish) for wish in wishes]
    herd.sim.fault("refuse", on="*", count=None)
    await herd.steps(20, seconds=30)
    assert [await herd.phase(wish) for wish in wishes] == before

    herd.sim.no_more_faults()
    for wish in wishes:
        await herd.until(wish, Phase.READY)


@pytest.mark.parametrize("fault", ["error_500", "garbage", "html", "truncated", "wrong_shape"])
async def test_one_bad_listing_changes_nothing_and_tells_nothing(herd: Herd, fault: str) -> None:
    """A hiccup is not news."""
    wish = await herd.wish()
    await herd.until(wish, Phase.READY)
    before = await told(herd)
    herd.sim.fault(fault, on="list", count=2)
    await herd.steps(3)

    assert await herd.phase(wish) is Phase.READY
    assert await told(herd) == before


async def test_an_instance_that_vanishes_is_called_so_after_two_looks(herd: Herd) -> None:
    """Missing in the list and by its id, twice, thirty seconds apart."""
    wish = await herd.wish()
    await herd.until(wish, Phase.READY)
    herd.sim.fault("vanish", name=OURS)
    await herd.steps(3)
    assert await herd.phase(wish) is Phase.READY

    failed = await herd.until(wish, Phase.FAILED)

    assert failed.failure is not None
    assert failed.failure.code == "INSTANCE_VANISHED"
    assert (await told(herd))[-1] == "vanished"


async def test_too_slow_is_failed_and_heals_when_it_comes_up(database: Database, target: DatabaseTarget) -> None:
    """Late is not lost."""
    async with herding(database, target, boot_seconds=1800) as herd:
        wish = await herd.wish()
        failed = await herd.until(wish, Phase.FAILED, steps=50, seconds=60)
        assert failed.failure is not None
        assert failed.failure.code == "STARTUP_TIMEOUT"

        await herd.until(wish, Phase.READY, steps=30, seconds=60)

        assert (await told(herd))[-4:] == ["timeout", "running", "health_checking", "ready"]


async def test_somebody_elses_instances_are_never_touched(herd: Herd) -> None:
    """Not even one whose name looks a little like ours."""
    foreign = [await herd.sim.create(name) for name in ("worker", "corral-demo", "corral-000000-inst-zz-1")]
    wish = await herd.wish()
    await herd.until(wish, Phase.READY)
    await herd.unwish(wish)
    await herd.until(wish, Phase.TERMINATED)
    await herd.steps(5)

    assert {i.id for i in herd.sim.instances()} == set(foreign)


@pytest.mark.parametrize("auth_id", ["accepted", "refused"])
async def test_a_private_image_is_pulled_and_its_login_is_kept_nowhere(
    database: Database, target: DatabaseTarget, auth_id: str
) -> None:
    """The id of the login is sent; if the provider refuses that, the login itself, inside that one call."""
    async with herding(database, target, image_auth_id=auth_id) as herd:
        wish = await herd.wish(replace(ORDER, template_id="204511"))
        await herd.until(wish, Phase.READY)

        assert (await herd.get(wish)).attempt == (1 if auth_id == "accepted" else 2)
        assert herd.sim.ledger(OURS).most_at_once == 1
        async with database.connection() as connection:
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            for table in tables:
                rows = await connection.fetch(f"SELECT t::text AS row FROM {table['tablename']} AS t")  # noqa: S608
                assert not [row for row in rows if "s3cret-s3cret" in row["row"]], table["tablename"]


async def test_a_private_image_without_its_login_fails_with_the_reason(
    database: Database, target: DatabaseTarget
) -> None:
    """A login that was deleted at the provider is told by its own code."""
    async with herding(database, target, image_auth_id="refused") as herd:
        private = {
            "Id": "999001",
            "name": "private",
            "image": "registry.example.com/acme/app:1",
            "imageAuth": "deleted",
            "ports": [],
        }
        template = herd.sim.odd_template(private)
        wish = await herd.wish(replace(ORDER, template_id=template))
        failed = await herd.until(wish, Phase.FAILED)

        assert failed.failure is not None
        assert failed.failure.code == "REGISTRY_AUTH_NOT_FOUND"


async def test_a_create_call_that_does_not_end_is_given_up(database: Database, target: DatabaseTarget) -> None:
    """After the longest create it is in doubt, with its end recorded, and searched for like any other."""
    async with herding(database, target, policy=Policy(longest_create=timedelta(seconds=0.5))) as herd:
        herd.sim.fault("hang", on="create", seconds=30)
        wish = await herd.wish()
        await herd.work()
        given_up = await herd.get(wish)

        assert given_up.create_in_doubt
        assert given_up.create_ended


@pytest.mark.parametrize(("list_lag", "get_lag", "soon"), [(0, 0, True), (40, 0, True), (40, 40, False)])
async def test_one_deleted_right_after_its_creation_is_terminated_soon(
    database: Database, target: DatabaseTarget, list_lag: int, get_lag: int, *, soon: bool
) -> None:
    """If the provider accepted the delete: it knew the machine then, so "not found" is no lag."""
    async with herding(database, target, list_lag_seconds=list_lag, get_lag_seconds=get_lag) as herd:
        wish = await herd.wish()
        await herd.work()
        await herd.unwish(wish)
        await herd.work()
        await herd.steps(10)
        assert await herd.phase(wish) is (Phase.TERMINATED if soon else Phase.DELETING)

        await herd.until(wish, Phase.TERMINATED)
        assert herd.sim.instances(OURS) == []
