"""Reading a paged list while it changes: nothing twice, nothing missed, or said so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.cloud.novita.paging import PAGES_AT_ONCE, CompleteRead, Page, read_all
from corral.domain.errors import CloudRefusedError, CloudTransientError


class PagedList:
    """A small provider: a list, newest or oldest first, that a script changes between two reads."""

    def __init__(
        self,
        count: int,
        *,
        base: int = 0,
        cap: int = 100,
        newest_first: bool = True,
        shows_order: bool = True,
        counts: bool = True,
        below_base: str = "same",
        script: Callable[[PagedList], None] = lambda _: None,
    ) -> None:
        self.living = [f"i{n}" for n in range(count)]
        self.created = count
        self.base, self.cap, self.newest_first, self.shows_order = base, cap, newest_first, shows_order
        self.counts, self.below_base, self.script = counts, below_base, script
        self.always = set(self.living)
        self.calls = 0

    def create(self) -> None:
        self.living.append(f"i{self.created}")
        self.created += 1

    def delete(self, place: int) -> None:
        if self.living:
            self.always.discard(self.living.pop(place % len(self.living)))

    async def fetch(self, number: int, size: int) -> Page[str]:
        # Reads of pages asked for at once arrive in any order: the later page first, here.
        for _ in range(20 - min(number, 20)):
            await asyncio.sleep(0)  # noqa: TID251  # gives way, does not wait
        self.calls += 1
        self.script(self)
        size = min(size, self.cap)
        if number < self.base and self.below_base != "same":
            if self.below_base == "refused":
                raise CloudRefusedError("invalid pageNum")
            return Page(items=(), total=len(self.living))
        listed = self.living[::-1] if self.newest_first else self.living
        first = max(0, number - self.base) * size
        part = listed[first : first + size]
        return Page(
            items=tuple((found, found) for found in part),
            total=len(self.living) if self.counts else None,
            newest_first=self.newest_first and self.shows_order and len(part) > 1,
        )


def read(world: PagedList, *, size: int = 100, first_number: int | None = None) -> CompleteRead[str]:
    return asyncio.run(read_all(world.fetch, size=size, first_number=first_number))


@given(
    count=st.integers(0, 12),
    base=st.sampled_from([0, 1]),
    size=st.integers(1, 5),
    cap=st.integers(1, 5),
    newest_first=st.booleans(),
    shows_order=st.booleans(),
    below_base=st.sampled_from(["same", "empty", "refused"]),
    changes=st.lists(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=3), max_size=12),
)
def test_a_reading_that_says_complete_missed_nothing_that_was_there_throughout(
    *,
    count: int,
    base: int,
    size: int,
    cap: int,
    newest_first: bool,
    shows_order: bool,
    below_base: str,
    changes: list[list[int | None]],
) -> None:
    """Whatever is created and deleted between any two pages, in either order, however odd the paging."""
    todo = list(changes)

    def script(world: PagedList) -> None:
        for change in todo.pop(0) if todo else []:
            if change is None:
                world.create()
            else:
                world.delete(change)

    world = PagedList(
        count,
        base=base,
        cap=cap,
        newest_first=newest_first,
        shows_order=shows_order,
        below_base=below_base,
        script=script,
    )
    reading = read(world, size=size)

    assert len(reading.items) == len(set(reading.items))
    if reading.complete:
        assert world.always <= set(reading.items)


@given(
    count=st.integers(0, 30),
    base=st.sampled_from([0, 1]),
    size=st.integers(1, 10),
    cap=st.integers(1, 10),
    newest_first=st.booleans(),
    below_base=st.sampled_from(["same", "empty", "refused"]),
)
def test_a_list_at_rest_is_read_completely(
    *, count: int, base: int, size: int, cap: int, newest_first: bool, below_base: str
) -> None:
    """At either base, with any cap, in either order."""
    world = PagedList(count, base=base, cap=cap, newest_first=newest_first, below_base=below_base)
    reading = read(world, size=size)

    assert sorted(reading.items) == sorted(world.living)
    assert reading.complete
    assert reading.calls == world.calls


@pytest.mark.parametrize(
    ("count", "base", "newest_first", "calls"),
    [
        (0, 0, True, 1),
        (100, 0, True, 1),
        (100, 1, True, 1),
        (200, 0, True, 3),
        (200, 0, False, 3),
        (1000, 0, True, 11),
        (1000, 0, False, 13),
        (1000, 1, True, 12),
    ],
)
def test_the_price_of_a_reading(count: int, base: int, newest_first: bool, calls: int) -> None:  # noqa: FBT001  # a table
    """A thousand instances cost eleven calls, not twenty."""
    assert read(PagedList(count, base=base, newest_first=newest_first)).calls == calls


@pytest.mark.parametrize(("base", "newest_first", "calls"), [(0, True, 11), (0, False, 12), (1, True, 11)])
def test_a_second_reading_knows_where_the_pages_begin(base: int, newest_first: bool, calls: int) -> None:  # noqa: FBT001
    """What the first one found out is not paid for again."""
    world = PagedList(1000, base=base, newest_first=newest_first)
    first = read(world)

    assert first.first_number == base
    assert read(world, first_number=first.first_number).calls == calls


def test_one_deletion_while_reading_costs_a_second_reading_and_is_then_complete() -> None:
    """The usual case of a change: noticed, and mended by reading again."""
    world = PagedList(300, script=lambda world: world.delete(290) if world.calls == 2 else None)
    reading = read(world)

    assert reading.complete
    assert set(reading.items) == set(world.living)


def test_a_long_list_that_changed_is_not_read_again_at_once() -> None:
    """On a small budget that takes minutes, in which it changes again."""
    world = PagedList(2500, script=lambda world: world.delete(2490) if world.calls == 2 else None)
    reading = read(world)

    assert (reading.complete, reading.calls) == (False, 26)


def test_few_pages_are_asked_for_at_once() -> None:
    """Other readers wait behind them, and must not wait for a whole listing."""
    world, under_way, most = PagedList(5000), 0, 0

    async def fetch(number: int, size: int) -> Page[str]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        page = await world.fetch(number, size)
        under_way -= 1
        return page

    reading = asyncio.run(read_all(fetch))

    assert (reading.complete, len(reading.items), most) == (True, 5000, PAGES_AT_ONCE)


def test_a_list_that_never_rests_is_given_as_it_is_and_says_so() -> None:
    """Two tries at most: it would cost most when the budget is shortest."""
    world = PagedList(1000, script=lambda world: world.delete(3))
    reading = read(world)

    assert not reading.complete
    assert reading.calls <= 24
    assert world.always <= set(reading.items) | {f"i{n}" for n in range(1000)}


@pytest.mark.parametrize(("count", "complete"), [(0, True), (7, True), (250, False)])
def test_without_a_total_only_a_single_page_is_sure(count: int, *, complete: bool) -> None:
    """An empty page after the first proves the first was all; more pages may have shifted."""
    world = PagedList(count, counts=False)
    reading = read(world)

    assert sorted(reading.items) == sorted(world.living)
    assert reading.complete is complete


def test_an_absurd_total_does_not_ask_for_ever() -> None:
    """A total of billions is an error, not an account."""

    async def fetch(number: int, size: int) -> Page[str]:
        return Page(items=tuple((f"{number}-{n}", "x") for n in range(size)), total=10**12, newest_first=True)

    reading = asyncio.run(read_all(fetch, size=1))

    assert not reading.complete
    assert reading.calls <= 1001


@pytest.mark.parametrize("nonsense", [3, -1])
def test_a_page_of_nonsense_teaches_nothing_about_where_the_pages_begin(nonsense: int) -> None:
    """Else one wrong answer would hide the first page for good."""

    async def fetch(_number: int, _size: int) -> Page[str]:
        return Page(items=(), total=nonsense)

    reading = asyncio.run(read_all(fetch))

    assert (reading.complete, reading.first_number) == (False, None)


def test_a_page_that_fails_fails_the_reading() -> None:
    """Half a list must not look like a short one."""

    async def fetch(number: int, _size: int) -> Page[str]:
        if number == 3:
            raise CloudTransientError("no answer")
        return Page(items=((f"{number}", "x"),), total=5, newest_first=False)

    with pytest.raises(CloudTransientError, match="no answer"):
        asyncio.run(read_all(fetch, size=1, first_number=0))
