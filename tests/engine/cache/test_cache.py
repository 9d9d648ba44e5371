"""One load for many callers, and what happens when data changes meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from support.clock.clocks import SteppedClock

from corral.base.settings.settings import CacheSettings
from corral.cache.cache import Cache
from corral.cache.registry import CacheCollector, CacheName, CacheRegistry, cache_name
from corral.domain.errors import CloudTransientError, NotFoundError


class Source:
    """A slow source: answers when released, and counts its calls."""

    def __init__(self) -> None:
        self.asked = 0
        self._answers: list[asyncio.Future[str]] = []

    async def load(self) -> str:
        self.asked += 1
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return await answer

    def answers(self, value: str, *, call: int = 0) -> None:
        self._answers[call].set_result(value)

    def fails(self, error: Exception) -> None:
        self._answers[0].set_exception(error)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def cache(clock: SteppedClock) -> Cache[str]:
    return Cache(ttl_seconds=30, most_entries=10, clock=clock)


async def ask(cache: Cache[str], source: Source, times: int = 1) -> list[asyncio.Task[str]]:
    """*times* questions, all waiting."""
    tasks = [asyncio.create_task(cache.get("k", source.load)) for _ in range(times)]
    await settle()
    return tasks


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)  # noqa: TID251  # yields, does not wait


async def test_concurrent_callers_share_one_load(cache: Cache[str]) -> None:
    """A cold cache must not turn a burst of requests into a burst at the provider."""
    source = Source()
    tasks = await ask(cache, source, 200)
    source.answers("v")

    assert set(await asyncio.gather(*tasks)) == {"v"}
    assert source.asked == 1
    assert await cache.get("k", source.load) == "v"
    assert (cache.stats().misses, cache.stats().hits) == (200, 1)


async def test_a_failed_load_is_shared_and_not_kept(cache: Cache[str]) -> None:
    """Every waiter gets the error; the next call loads again."""
    source = Source()
    tasks = await ask(cache, source, 3)
    source.fails(CloudTransientError("down"))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [CloudTransientError] * 3
    (again,) = await ask(cache, source)
    source.answers("v", call=1)
    assert await again == "v"


async def test_a_cancelled_waiter_does_not_stop_the_others(cache: Cache[str]) -> None:
    """The first to ask may be a client that hangs up."""
    source = Source()
    first, second = await ask(cache, source, 2)
    first.cancel()
    await settle()
    source.answers("v")

    assert await second == "v"
    assert first.cancelled()
    assert source.asked == 1


async def test_a_load_without_waiters_is_kept_or_fails_silently(cache: Cache[str]) -> None:
    """Warnings are errors here, so a complaint of the loop about a lost exception would fail the test."""
    source = Source()
    (task,) = await ask(cache, source)
    task.cancel()
    await settle()
    source.answers("v")
    await settle()

    assert cache.stats().keys == ("k",)
    failing = Source()
    cache.drop("k")
    (task,) = await ask(cache, failing)
    task.cancel()
    await settle()
    failing.fails(CloudTransientError("down"))
    await settle()
    assert cache.stats().size == 0


@pytest.mark.parametrize("forget", [lambda c: c.drop("k"), lambda c: c.clear()], ids=["drop", "clear"])
async def test_what_was_dropped_while_it_loaded_is_not_kept(cache: Cache[str], forget: object) -> None:
    """It may have been read before the change that caused the drop."""
    source = Source()
    (before,) = await ask(cache, source)
    assert callable(forget)
    forget(cache)
    (after,) = await ask(cache, source)
    source.answers("new", call=1)
    source.answers("old", call=0)

    assert (await before, await after) == ("old", "new")
    assert await cache.get("k", source.load) == "new"
    assert source.asked == 2


async def test_a_put_wins_over_a_load_under_way(cache: Cache[str]) -> None:
    """What we know from a change is newer than what we asked for before it."""
    source = Source()
    (task,) = await ask(cache, source)
    cache.put("k", "put")
    source.answers("loaded")

    assert await task == "loaded"
    assert await cache.get("k", source.load) == "put"


async def test_a_load_under_way_is_outdated_too(cache: Cache[str], clock: SteppedClock) -> None:
    """It may be made from data before the change; a second later it is loaded again."""
    source = Source()
    (task,) = await ask(cache, source)
    cache.expire_within(1)
    cache.expire_within(5)
    source.answers("old")
    await task

    assert cache.peek("k") == "old"
    clock.advance(1)
    assert cache.peek("k") is None


async def test_a_load_that_outlasts_its_outdating_is_not_kept(cache: Cache[str], clock: SteppedClock) -> None:
    """Its second was over before it came."""
    source = Source()
    (task,) = await ask(cache, source)
    cache.expire_within(1)
    clock.advance(2)
    source.answers("old")

    assert await task == "old"
    assert cache.peek("k") is None


async def test_a_notice_spares_the_merged_listing_for_a_second(clock: SteppedClock) -> None:
    """A busy fleet changes hundreds of times a second; what a caller changed is dropped at once all the same."""
    book = CacheRegistry(CacheSettings(), clock)
    listing = book[CacheName.MERGED_LISTING]
    held = list[str | None]()
    for change in (
        lambda: book.heard_of(CacheName.INSTANCE_DETAILS, "inst_1"),
        lambda: book.heard_of(CacheName.MERGED_LISTING, None),
        lambda: book.drop(CacheName.INSTANCE_DETAILS, "inst_1"),
        lambda: book.clear(CacheName.MERGED_LISTING),
        lambda: book.heard_of(CacheName.MERGED_LISTING, "k"),
    ):
        listing.put("k", "held")
        change()
        held.append(listing.peek("k"))
        clock.advance(1)
        held.append(listing.peek("k"))

    assert held == ["held", None, "held", None, None, None, None, None, None, None]


async def test_times_of_the_book_are_those_of_the_settings(clock: SteppedClock) -> None:
    """CACHE_TIMEOUT and COMPREHENSIVE_CACHE_TTL have an effect, and a time of 0 keeps nothing."""
    settings = CacheSettings.model_validate({"CACHE_TIMEOUT": 7, "COMPREHENSIVE_CACHE_TTL": 0})
    book = CacheRegistry(settings, clock)
    book[CacheName.MERGED_LISTING].put("k", "v")

    assert {name.value: cache.ttl_seconds for name, cache in book} == {
        "instanceDetails": 30,
        "instanceStates": 60,
        "mergedListing": 0,
        "products": 7,
        "optimalProducts": 7,
        "templates": 600,
        "templateLists": 600,
        "volumes": 7,
        "clusters": 600,
        "apiKeys": 10,
    }
    assert book[CacheName.MERGED_LISTING].stats().size == 0


async def test_an_answer_goes_with_what_it_was_made_from(clock: SteppedClock) -> None:
    """Dropping products and still choosing by them would be no drop."""
    book = CacheRegistry(CacheSettings(), clock)
    for name, cache in book:
        cache.put("k", name)

    assert book.drop(CacheName.PRODUCTS, "k") is True
    assert book[CacheName.OPTIMAL_PRODUCTS].stats().size == 0
    assert book[CacheName.TEMPLATES].stats().size == 1
    assert book.clear() == len(CacheName) - 2
    with pytest.raises(NotFoundError, match="there is no cache 'nonsense'; there are instanceDetails"):
        cache_name("nonsense")


async def test_prometheus_sees_what_the_caches_did(clock: SteppedClock) -> None:
    """Read at the moment it asks."""
    book = CacheRegistry(CacheSettings(), clock)
    registry = CollectorRegistry()
    registry.register(CacheCollector(book))
    book[CacheName.TEMPLATES].put("k", "v")
    await book[CacheName.TEMPLATES].get("k", Source().load)

    labels = {"cache": "templates"}
    assert registry.get_sample_value("corral_cache_entries", labels) == 1
    assert registry.get_sample_value("corral_cache_hits_total", labels) == 1
    assert registry.get_sample_value("corral_cache_misses_total", labels) == 0
