"""
Reading a list that comes in pages while it changes.

The provider pages by number, does not say whether the first is 0 or 1, may give fewer than asked, and instances come
and go between two pages: a deletion moves everything after it forward, so that an instance at a page's edge is missed.
Reading each page once cannot detect that. A read is complete here if:

* every page says the same total, every page is as long as it must be, and no id is seen twice; and
* new items are at one end of the list (newest or oldest first). With the newest first, the first page is read
  first and once more at the end: unchanged, nothing was added and stayed; the total unchanged, nothing was taken away.
  With the oldest first, or when the order cannot be seen, the last page is read before those between and both ends
  once more after them.

So a list of N pages costs N + 1 calls (newest first) or N + 3 at most, and one page costs one. A read that is not
complete is tried once more unless the list is long, and is then returned as incomplete: more tries would cost most when
the rate limit is lowest.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from corral.domain.errors import CloudRefusedError

Item = TypeVar("Item")

PAGE_SIZE: Final = 100
"""The largest page that clients of the provider are known to ask for; its own cap is not published."""
MOST_PAGES: Final = 1000
"""
A total that asks for more is taken for an error: a hundred thousand instances are beyond any account.

It is read page by page while there is something new, so that a wrong number alone does not use up the rate limit.
"""
TRIES: Final = 2
MOST_PAGES_TWICE: Final = 20
"""A longer list that changed while it was read is not read again at once: it would change as much meanwhile."""
PAGES_AT_ONCE: Final = 4
"""Other reads wait behind these pages when permits are short, so they are few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """One page: items by id in the list's order, and how many the whole list has."""

    items: tuple[tuple[str, Item], ...]
    total: int | None
    newest_first: bool = False
    """Whether the creation times show this order."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids in their order."""
        return tuple(found for found, _ in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRead(Generic[Item]):
    """All that was read: each id once, and whether that is certainly all."""

    items: tuple[Item, ...]
    complete: bool
    calls: int
    first_number: int | None
    """
    The number of the first page, if it is known; passing it to the next read saves a call.

    None after an incomplete read: one wrong page must not make all later reads miss the first page.
    """


FetchPage = Callable[[int, int], Awaitable[Page[Item]]]
"""Reads page *number* with *size* items to a page."""


async def read_all(
    fetch: FetchPage[Item], *, size: int = PAGE_SIZE, first_number: int | None = None
) -> CompleteRead[Item]:
    """Read the whole list; what *fetch* raises, this raises."""
    reader = _Reader(fetch, size, first_number)
    for _ in range(TRIES):
        if await reader.read():
            break
    return CompleteRead(
        items=tuple(reader.seen.values()),
        complete=reader.complete,
        calls=reader.calls,
        first_number=reader.first_number if reader.complete else None,
    )


class _Reader(Generic[Item]):
    """One reading in progress."""

    def __init__(self, fetch: FetchPage[Item], size: int, first_number: int | None) -> None:
        self._fetch = fetch
        self._asked_size = size
        self.first_number = first_number
        self.seen: dict[str, Item] = {}
        self.complete = False
        self.calls = 0

    async def read(self) -> bool:
        """Read once; returns whether another try is useless."""
        first = await self._first()
        if first.total is None:
            await self._read_uncounted(first)
            return True
        if first.total <= len(first.items):
            self._accept([first], sure=len(set(first.ids)) == first.total)
            return self.complete
        if not first.items:
            return False
        # A shorter page than asked is the provider's cap; asking for just that keeps pages and offsets in step.
        size = min(self._asked_size, len(first.items))
        count = math.ceil(first.total / size)
        if count > MOST_PAGES:
            await self._read_uncounted(first)
            self.complete = False
            return True
        return await self._read_counted(first, size, count)

    async def _first(self) -> Page[Item]:
        """The first page; where that is page 1, page 0 is refused, empty or the same."""
        if self.first_number is not None:
            return await self._page(self.first_number, self._asked_size)
        try:
            first = await self._page(0, self._asked_size)
        except CloudRefusedError as refused:
            if refused.code != CloudRefusedError.code:
                raise  # about the key or the account, not the page
            self.first_number = 1
            return await self._page(1, self._asked_size)
        if not first.items and first.total:
            first = await self._page(1, self._asked_size)
            if first.items:  # else it shows nothing about where the pages begin
                self.first_number = 1
        return first

    async def _read_counted(self, first: Page[Item], size: int, count: int) -> bool:
        pages: dict[int, Page[Item]] = {0: first}
        if self.first_number is None:
            second = await self._page(1, size)
            # Most of it the same, rather than all: something may have been added or taken away in between.
            if 2 * len(set(second.ids) & set(first.ids)) > len(first.items):
                self.first_number = 1
                pages = {0: second}
            else:
                self.first_number = 0
                pages[1] = second
        ends = {0}
        if not pages[0].newest_first and count > 2:  # noqa: PLR2004  # with two pages an unchanged first one proves it
            ends.add(count - 1)
            pages = {0: pages[0], count - 1: (await self._pages([count - 1], size))[0]}
        between = [place for place in range(count) if place not in pages]
        pages.update(zip(between, await self._pages(between, size), strict=True))
        again = dict(zip(sorted(ends), await self._pages(sorted(ends), size), strict=True))
        steady = all(pages[place].ids == page.ids for place, page in again.items())
        same_total = {page.total for page in (*pages.values(), *again.values())} == {first.total}
        ids = [found for place in range(count) for found in pages[place].ids]
        whole = len(ids) == len(set(ids)) == first.total
        ordered = [pages[place] for place in range(count)]
        self._accept([*ordered, *again.values()], sure=steady and same_total and whole)
        return self.complete or count > MOST_PAGES_TWICE

    async def _read_uncounted(self, page: Page[Item]) -> None:
        """Without a total, read on until a page brings nothing new; sure only if the first page was the only one."""
        pages = [page]
        seen = set(page.ids)
        for number in range(1, MOST_PAGES):
            if not pages[-1].items:
                break
            following = await self._page((self.first_number or 0) + number, self._asked_size)
            if number > 1 and not set(following.ids) - seen:
                break
            seen.update(following.ids)
            pages.append(following)
        self._accept(pages, sure=len(seen) == len(page.ids))

    async def _pages(self, places: Sequence[int], size: int) -> list[Page[Item]]:
        """Several pages, a few at once, by their place in the list, the first being 0."""
        base, turns = self.first_number or 0, asyncio.Semaphore(PAGES_AT_ONCE)

        async def in_turn(place: int) -> Page[Item]:
            async with turns:
                return await self._page(base + place, size)

        tasks = [asyncio.ensure_future(in_turn(place)) for place in places]
        try:
            return list(await asyncio.gather(*tasks))
        finally:  # a task group would do this too, but wrap the error in a group that no caller expects
            for task in tasks:
                task.cancel()

    async def _page(self, number: int, size: int) -> Page[Item]:
        self.calls += 1
        return await self._fetch(number, size)

    def _accept(self, pages: Sequence[Page[Item]], *, sure: bool) -> None:
        """Keep what was read. A complete read replaces what an earlier try read; an incomplete one adds to it."""
        if sure:
            self.seen.clear()
        for page in pages:
            self.seen.update(page.items)
        self.complete = sure
