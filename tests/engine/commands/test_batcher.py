"""The batcher: which items are committed together, and which error belongs to which item."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from corral.engine.batcher import Batcher


class Ledger:
    """Commits when released, and remembers the groups."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def commit(self, items: Sequence[int]) -> list[str]:
        self.groups.append(list(items))
        await self.open.wait()
        if 13 in items:
            raise ValueError("unlucky")
        return [f"kept {item}" for item in items]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)  # noqa: TID251  # gives way, does not wait


async def test_alone_an_item_is_committed_at_once() -> None:
    """A single item is not delayed."""
    ledger = Ledger()
    groups = Batcher[int, str](ledger.commit)

    assert [await groups.add(1), await groups.add(2)] == ["kept 1", "kept 2"]
    assert ledger.groups == [[1], [2]]


async def test_what_arrives_during_a_commit_goes_into_the_next_together() -> None:
    """Up to the most that go together, in the order of arrival."""
    ledger = Ledger()
    ledger.open.clear()
    groups = Batcher[int, str](ledger.commit, most=3)
    adding = [asyncio.create_task(groups.add(0))]
    await turns()
    adding += [asyncio.create_task(groups.add(n)) for n in range(1, 6)]
    await turns()
    ledger.open.set()

    assert await asyncio.gather(*adding) == [f"kept {n}" for n in range(6)]
    assert ledger.groups == [[0], [1, 2, 3], [4, 5]]


async def test_an_error_reaches_exactly_the_members_of_its_group() -> None:
    """Those before and after never hear of it."""
    ledger = Ledger()
    ledger.open.clear()
    groups = Batcher[int, str](ledger.commit, most=2)
    adding = [asyncio.create_task(groups.add(0))]
    await turns()
    adding += [asyncio.create_task(groups.add(n)) for n in (12, 13, 14)]
    await turns()
    ledger.open.set()
    outcomes = await asyncio.gather(*adding, return_exceptions=True)

    assert [str(outcome) for outcome in outcomes] == ["kept 0", "unlucky", "unlucky", "kept 14"]
    assert await groups.add(15) == "kept 15"


async def test_a_caller_that_leaves_does_not_break_the_others() -> None:
    """Before its commit began it is left out; after, it is committed without a waiter."""
    ledger = Ledger()
    ledger.open.clear()
    groups = Batcher[int, str](ledger.commit)
    first, second, third = (asyncio.create_task(groups.add(n)) for n in (1, 2, 3))
    await turns()
    late, leaver = (asyncio.create_task(groups.add(n)) for n in (4, 5))
    await turns()
    second.cancel()
    leaver.cancel()
    await turns()
    ledger.open.set()

    assert [*await asyncio.gather(first, third, late)] == ["kept 1", "kept 3", "kept 4"]
    assert ledger.groups == [[1, 2, 3], [4]]
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_no_caller_waits_for_ever_when_the_process_ends() -> None:
    """Whether their commit had begun or not."""
    ledger = Ledger()
    ledger.open.clear()
    groups = Batcher[int, str](ledger.commit, most=1)
    adding = [asyncio.create_task(groups.add(n)) for n in (1, 2)]
    await turns()
    assert groups._running is not None
    groups._running.cancel()
    outcomes = await asyncio.gather(*adding, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2
    ledger.open.set()
    assert await groups.add(3) == "kept 3"


async def test_a_thousand_at_once_take_few_commits() -> None:
    """The point of it all."""
    ledger = Ledger()
    groups = Batcher[int, str](ledger.commit)
    outcomes = await asyncio.gather(*(groups.add(n + 100) for n in range(1000)))

    assert outcomes == [f"kept {n + 100}" for n in range(1000)]
    assert [len(group) for group in ledger.groups] == [200] * 5


async def test_in_halves_a_crowd_is_split_and_stays_split() -> None:
    """However uneven it began: while one half is committed, the other is worked on."""
    ledger = Ledger()
    groups = Batcher[int, str](ledger.commit, in_halves=True)

    async def caller(name: int) -> None:
        for _ in range(10):
            assert await groups.add(name) == f"kept {name}"

    first = asyncio.create_task(caller(100))
    await turns(2)
    await asyncio.gather(first, *(caller(n) for n in range(101, 132)))

    sizes = [len(group) for group in ledger.groups]
    assert sum(sizes) == 32 * 10
    assert sizes[0] == 1
    assert max(sizes) <= 17
    assert all(15 <= size <= 17 for size in sizes[4:16]), sizes


async def test_a_single_item_is_committed_at_once_in_split_batches() -> None:
    """Half of one is one."""
    ledger = Ledger()
    groups = Batcher[int, str](ledger.commit, in_halves=True)

    assert [await groups.add(n) for n in (1, 2)] == ["kept 1", "kept 2"]
    assert await asyncio.gather(*(groups.add(n) for n in (3, 4, 5, 6))) == ["kept 3", "kept 4", "kept 5", "kept 6"]
    assert ledger.groups == [[1], [2], [3, 4], [5, 6]]
