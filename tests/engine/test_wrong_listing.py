"""A list that is wrong proves nothing, costs few calls, and does not keep a lost create from being found."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.stepped_engine import Herd, herding

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.tables import Phase
from corral.domain.operation import OperationKind
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database

OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"
BUSY = 20


@pytest.fixture
async def herd(database: Database, target: DatabaseTarget) -> AsyncGenerator[Herd]:
    async with herding(database, target) as herd:
        yield herd


def calls(herd: Herd, endpoint: str) -> int:
    return int(herd.sim.calls()["endpoints"].get(endpoint, {"total": 0})["total"])


async def all_ready(herd: Herd, count: int) -> list[InstanceId]:
    wishes = [await herd.wish() for _ in range(count)]
    for wish in wishes:
        await herd.until(wish, Phase.READY)
    return wishes


async def test_an_empty_list_while_machines_run_is_not_proof_that_a_create_did_not_happen(herd: Herd) -> None:
    """One create reply is lost while the list says that there is nothing; lookups show that the list is wrong."""
    ready = await all_ready(herd, BUSY)
    herd.sim.set(list_shows="nothing")
    herd.sim.fault("lost_reply", on="create")
    wish = await herd.wish()
    before = calls(herd, "get")
    await herd.steps(60)

    assert calls(herd, "get") - before <= 40, "lookups of machines that the list lacks are repeated at growing pauses"
    assert (await herd.get(wish)).create_in_doubt
    assert calls(herd, "create") == BUSY + 1
    assert [await herd.phase(each) for each in ready] == [Phase.READY] * BUSY

    herd.sim.set(list_shows="all")
    await herd.until(wish, Phase.READY)
    assert herd.sim.ledger(OURS).most_at_once == 1


async def test_one_that_goes_while_the_list_is_wrong_is_noticed(herd: Herd) -> None:
    """By the repeated lookup; from then on the list is not known to be wrong any more."""
    (wish,) = await all_ready(herd, 1)
    herd.sim.set(list_shows="nothing")
    await herd.steps(10)
    herd.sim.fault("vanish")
    gone = await herd.until(wish, Phase.FAILED, seconds=10)

    assert gone.failure is not None
    assert gone.failure.code == "INSTANCE_VANISHED"


async def test_when_all_are_gone_at_once_all_are_noticed(herd: Herd) -> None:
    """A few are looked up first; once they are not found, so are the others."""
    wishes = await all_ready(herd, BUSY)
    herd.sim.fault("vanish")
    await herd.steps(30)

    assert {await herd.phase(wish) for wish in wishes} == {Phase.FAILED}


async def direct_lookups(herd: Herd, seconds: float, rounds: int) -> None:
    """What a service does whose listing never comes to an end."""
    for _ in range(rounds):
        herd.clock.advance(seconds)
        herd.sim.advance(seconds)
        await herd.observer.sweep()
        await herd.observer.peek()
        await herd.work()


async def test_a_lost_create_is_found_by_its_name_with_one_call(herd: Herd) -> None:
    """However large the account is, and however long its listing takes."""
    herd.sim.fault("lost_reply", on="create")
    wish = await herd.wish()
    await herd.work()
    listed = calls(herd, "list")
    await direct_lookups(herd, 5, 2)
    found = await herd.get(wish)

    assert (found.provider_id, found.attempt) == (herd.sim.instances()[0].id, 1)
    assert calls(herd, "list") - listed == 1


@pytest.mark.parametrize("name_filter", ["contains", "prefix", "exact"])
async def test_a_create_that_did_not_happen_is_repeated_after_lookups_of_its_name(herd: Herd, name_filter: str) -> None:
    """After the settle time, if the same question finds a machine that exists."""
    await all_ready(herd, 1)
    herd.sim.set(name_filter=name_filter)
    herd.sim.fault("error_500", on="create")
    wish = await herd.wish()
    await herd.work()
    await direct_lookups(herd, 5, 11)
    assert (await herd.get(wish)).attempt == 1, "not before the settle time"

    await direct_lookups(herd, 5, 30)
    assert (await herd.get(wish)).attempt == 2
    assert len(herd.sim.instances(OURS)) == 2


@pytest.mark.parametrize("quirk", [{"name_filter": "nothing"}, {"list_shows": "nothing"}])
async def test_a_filter_that_finds_nothing_proves_nothing(herd: Herd, quirk: dict[str, str]) -> None:
    """How the filter works is not documented; a machine that is known to exist is the test."""
    await all_ready(herd, 1)
    herd.sim.fault("lost_reply", on="create")
    herd.sim.set(**quirk)
    wish = await herd.wish()
    await herd.work()
    await direct_lookups(herd, 5, 60)

    assert (await herd.get(wish)).create_in_doubt
    assert len(herd.sim.instances(OURS)) == 2


async def test_without_a_machine_to_compare_with_a_lookup_proves_nothing(herd: Herd) -> None:
    """Then the account is small, and a listing of all tells."""
    herd.sim.fault("error_500", on="create")
    wish = await herd.wish()
    await herd.work()
    await direct_lookups(herd, 5, 60)
    assert (await herd.get(wish)).attempt == 1

    await herd.ask(OperationKind.DELETE, wish)
    await herd.until(wish, Phase.TERMINATED)
