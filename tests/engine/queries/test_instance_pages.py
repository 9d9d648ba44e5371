"""Pages of instances: what is kept of them never hides a change."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from support.engines.describer import VIEW, a_describer
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.errors import NotFoundError
from corral.domain.lifecycle.phases import Phase
from corral.engine.queries.instance_pages import KEPT_SECONDS, InstancePages
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables.fleet.instance_pages import InstanceFilter


@pytest.fixture
async def engine(database: Database, target: DatabaseTarget) -> AsyncGenerator[SteppedEngine]:
    async with stepped_engine(database, target, boot_seconds=4, pull_seconds=0) as engine:
        yield engine


@pytest.fixture
def pages(engine: SteppedEngine) -> InstancePages:
    return InstancePages(engine.database, a_describer(engine.database, engine.clock), engine.clock)


async def page(pages: InstancePages, *, phases: list[Phase] | None = None, **query: Any) -> dict[str, Any]:
    """A page as a caller reads it."""
    found = await pages.page(InstanceFilter(phases=phases), **{"limit": 100, **query})
    shown: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return shown


async def test_a_change_is_shown_at_once_without_a_notification(engine: SteppedEngine, pages: InstancePages) -> None:
    """The page asks the database for generations each time; what did not change stays as it was."""
    changed, unchanged = [await engine.request_create() for _ in range(2)]
    before = {one["id"]: one for one in (await page(pages))["instances"]}

    await engine.request_delete(changed)
    after = {one["id"]: one for one in (await page(pages))["instances"]}

    assert before[changed]["operation"]["kind"] == "create"
    assert after[changed]["operation"]["kind"] == "delete"
    assert after[unchanged] == before[unchanged]


async def test_rows_and_whole_instances_are_kept_apart(engine: SteppedEngine, pages: InstancePages) -> None:
    """Each reader gets its own shape, in whatever order they read, and both show a change at once."""
    made = await engine.request_create()
    statuses = []
    for _ in range(2):
        (row,) = (await page(pages, summaries=True))["instances"]
        (whole,) = (await page(pages))["instances"]
        assert "operation" not in row
        of_lease = {"endsAt", "endsBecause", "endsReason", "notifiedAt", "quiet"}  # below `lease` in a whole one
        assert {name: value for name, value in row.items() if name not in of_lease}.items() <= whole.items()
        statuses.append(row["status"])
        await engine.request_delete(made)

    assert statuses == ["creating", "deleting"]


async def test_what_is_no_longer_read_is_forgotten(engine: SteppedEngine, pages: InstancePages) -> None:
    """A fleet of ten thousand, once read, would take 16 MB in each shape until it is read again."""
    await engine.request_create()
    await page(pages)
    await page(pages, summaries=True)

    assert pages.forget_expired() == 0
    engine.clock.advance(KEPT_SECONDS)
    assert pages.forget_expired() == 2
    assert pages.forget_expired() == 0


async def test_named_instances_are_read_together(engine: SteppedEngine, pages: InstancePages) -> None:
    """Newest first, whatever the order of the ids; unknown ones are left out."""
    first, second, _ = [await engine.request_create() for _ in range(3)]

    found = await pages.named([first, "inst_unknown", second], summaries=True)

    assert {msgspec.json.decode(one)["id"] for one in found.instances} == {first, second}
    assert (found.total, found.limit) == (2, 3)


async def test_what_depends_on_the_clock_is_at_most_a_second_old(engine: SteppedEngine, pages: InstancePages) -> None:
    """`stale` turns true although nothing is written."""
    ready = await engine.request_create()
    await engine.until(ready, Phase.READY)
    assert [one["stale"] for one in (await page(pages))["instances"]] == [False]

    engine.clock.advance((2 * VIEW.poll_interval + timedelta(seconds=10)).total_seconds())

    assert [one["stale"] for one in (await page(pages))["instances"]] == [True]


async def test_pages_are_newest_first_with_the_total_of_the_filter(engine: SteppedEngine, pages: InstancePages) -> None:
    """Behind the end the total is still known, and so are the filters."""
    made = []
    for _ in range(3):
        made.append(await engine.request_create())
        engine.clock.advance(0.001)
    newest_first = made[::-1]

    whole, second, behind = [await page(pages, limit=2, offset=offset) for offset in (0, 2, 4)]

    assert [one["id"] for one in (*whole["instances"], *second["instances"])] == newest_first
    assert behind == {"instances": [], "total": 3, "limit": 2, "offset": 4}
    assert (await page(pages, phases=[Phase.READY]))["total"] == 0


async def test_a_page_after_an_instance_begins_there_although_the_list_grows(
    engine: SteppedEngine, pages: InstancePages
) -> None:
    """Instances of the same instant are in the order of their ids; the total is that of the whole list."""
    made = [await engine.request_create() for _ in range(5)]
    engine.clock.advance(1)
    first = await page(pages, limit=2)
    await engine.request_create()

    second = await page(pages, limit=2, after=first["instances"][-1]["id"])
    third = await page(pages, limit=2, after=second["instances"][-1]["id"])

    assert [one["id"] for each in (first, second, third) for one in each["instances"]] == sorted(made)
    assert [each["total"] for each in (first, second, third)] == [5, 6, 6]
    with pytest.raises(NotFoundError):
        await page(pages, after="inst_unknown")


async def test_a_page_may_begin_after_an_id_of_the_provider(engine: SteppedEngine, pages: InstancePages) -> None:
    """It is the page after that instance, not the first page again."""
    oldest = await engine.request_create()
    engine.clock.advance(1)
    newest = await engine.request_create()
    await engine.until(newest, Phase.READY)
    provider_id = (await page(pages, limit=1))["instances"][0]["novitaInstanceId"]

    assert [one["id"] for one in (await page(pages, after=provider_id))["instances"]] == [oldest]
