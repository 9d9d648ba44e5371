"""Slots for jobs: how many run at once, and which yield to which."""

from __future__ import annotations

import asyncio

import pytest

from corral.jobs.execution import URGENT_PLACES, AdaptiveSemaphore


class Crowd:
    """Callers that wait, or not."""

    def __init__(self) -> None:
        self.there = False

    def __call__(self) -> bool:
        return self.there


class Guests:
    """Jobs that each hold a slot until they are released."""

    def __init__(self, seats: AdaptiveSemaphore) -> None:
        self._seats = seats
        self.seated: list[int] = []
        self._doors: dict[int, asyncio.Event] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def come(self, *numbers: int, is_urgent: bool = False) -> None:
        for number in numbers:
            self._doors[number] = asyncio.Event()
            self.tasks[number] = asyncio.create_task(self._sit(number, is_urgent=is_urgent))
        await turns()

    async def go(self, number: int) -> None:
        self._doors[number].set()
        await self.tasks[number]
        await turns()

    async def _sit(self, number: int, *, is_urgent: bool) -> None:
        async with self._seats.place(is_urgent=is_urgent):
            self.seated.append(number)
            try:
                await self._doors[number].wait()
            finally:
                self.seated.remove(number)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)  # noqa: TID251  # gives way, does not wait


async def test_no_more_sit_than_there_are_places_and_the_first_to_come_is_next() -> None:
    """MAX_CONCURRENT_JOBS is kept, and no job is overtaken for ever."""
    guests = Guests(AdaptiveSemaphore(2))
    await guests.come(1, 2, 3, 4)
    assert guests.seated == [1, 2]

    await guests.go(2)
    assert guests.seated == [1, 3]


async def test_urgent_jobs_have_places_of_their_own_and_go_first() -> None:
    """Creates may hold every place for half a minute; a delete must not wait for them."""
    guests = Guests(AdaptiveSemaphore(2))
    await guests.come(1, 2, 3)
    await guests.come(*range(11, 11 + URGENT_PLACES + 1), is_urgent=True)
    at_first = list(guests.seated)
    await guests.go(1)

    assert at_first == [1, 2, *range(11, 11 + URGENT_PLACES)]
    assert guests.seated == [2, *range(11, 11 + URGENT_PLACES + 1)], "an urgent job before the one that came earlier"


async def test_in_a_crowd_fewer_sit_but_never_none() -> None:
    """Callers go first; jobs that run continue."""
    crowd = Crowd()
    guests = Guests(AdaptiveSemaphore(10, is_crowded=crowd))
    crowd.there = True
    await guests.come(*range(6))
    assert guests.seated == [0, 1]

    await guests.go(0)
    assert guests.seated == [1, 2]


async def test_after_the_crowd_all_places_are_taken_again() -> None:
    """The first job that ends lets in as many as there is room for."""
    crowd = Crowd()
    guests = Guests(AdaptiveSemaphore(5, is_crowded=crowd))
    crowd.there = True
    await guests.come(*range(7))
    assert guests.seated == [0]

    crowd.there = False
    await guests.go(0)
    assert guests.seated == [1, 2, 3, 4, 5]


async def test_a_job_that_is_called_off_while_waiting_takes_no_place() -> None:
    """A place lost at every shutdown or time-out would end all work in the long run."""
    guests = Guests(AdaptiveSemaphore(1))
    await guests.come(1, 2, 3)
    guests.tasks[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await guests.tasks[2]

    await guests.go(1)
    assert guests.seated == [3]


async def test_a_job_that_is_called_off_as_it_gets_its_place_gives_it_back() -> None:
    """Both can happen in one turn of the loop."""
    seats = AdaptiveSemaphore(1)
    guests = Guests(seats)
    await guests.come(1, 2, 3)
    guests.tasks[1].cancel()
    await asyncio.sleep(0)  # noqa: TID251  # the slot is granted to the second, which has not yet resumed
    guests.tasks[2].cancel()
    await turns()

    assert guests.tasks[2].cancelled()
    assert guests.seated == [3]


async def test_a_job_that_steps_aside_gives_its_place_to_the_next_and_continues_before_new_ones() -> None:
    """It may hold the lock of an instance; and the more jobs wait for a commit, the more share it."""
    seats = AdaptiveSemaphore(1)
    order: list[str] = []
    committed, ended = asyncio.Event(), asyncio.Event()

    async def waits_for_commit() -> None:
        async with seats.place() as aside:
            order.append("begins")
            async with aside():
                await committed.wait()
            order.append("continues")

    async def works(name: str) -> None:
        async with seats.place():
            order.append(name)
            await ended.wait()

    tasks = [asyncio.create_task(each) for each in (waits_for_commit(), works("second"), works("third"))]
    await turns()
    committed.set()
    await turns()
    before_any_ended = list(order)
    ended.set()
    await asyncio.gather(*tasks)

    assert before_any_ended == ["begins", "second"], "the place is taken when the commit has been made"
    assert order == ["begins", "second", "continues", "third"]


@pytest.mark.parametrize("is_committed", [False, True], ids=["during the commit", "while it waits for a place"])
async def test_a_job_that_is_called_off_aside_gives_back_no_place_twice(*, is_committed: bool) -> None:
    """Else one more job than allowed would run for ever after."""
    seats = AdaptiveSemaphore(1)
    guests = Guests(seats)
    committed = asyncio.Event()

    async def waits_for_commit() -> None:
        async with seats.place() as aside, aside():
            await committed.wait()

    task = asyncio.create_task(waits_for_commit())
    await turns()
    await guests.come(1, 2)
    if is_committed:
        committed.set()
        await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await turns()

    assert guests.seated == [1]
