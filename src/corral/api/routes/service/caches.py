"""Look at the caches, and empty them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from corral.api.http.bodies import filled
from corral.api.middleware.auth import ADMIN, VIEWER
from corral.cache.cache import Cache
from corral.cache.registry import cache_name
from corral.domain.errors import NotFoundError
from corral.engine.queries.cache_invalidation import CacheInvalidation

KEY_LENGTH = 1000
"""No key is longer: the longest names a product and every region. A notice to other processes must also hold it."""


class CacheNumbers(msgspec.Struct, rename="camel"):
    """One cache of the process that answers, since it started."""

    size: Annotated[int, Meta(description="Values held.")]
    hits: Annotated[int, Meta(description="Questions answered at once.")]
    misses: Annotated[int, Meta(description="Questions that waited for a load.")]
    sets: Annotated[int, Meta(description="Values stored.")]
    deletes: Annotated[int, Meta(description="Values dropped or cleared.")]
    evictions: Annotated[int, Meta(description="Values that expired, or gave way to newer ones.")]
    hit_ratio: Annotated[float, Meta(description="Hits among all questions, 0 to 1.")]
    keys: Annotated[list[str], Meta(description="Last used first, at most 100.")]


class AllCacheNumbers(msgspec.Struct):
    """Every cache."""

    caches: Annotated[dict[str, CacheNumbers], Meta(description="By the cache's name.")]


class ClearCacheRequest(msgspec.Struct, rename="camel"):
    """What to clear."""

    cache_name: Annotated[str | None, Meta(description="One cache; all when left out.")] = None


class RemovedValues(msgspec.Struct):
    """What was removed."""

    removed: Annotated[int, Meta(description="Values this process held; others drop theirs too, uncounted.")]


def handlers(caches: CacheInvalidation) -> list[HTTPRouteHandler]:
    """The routes of `/api/cache`."""

    @get("/api/cache/stats", summary="Get statistics of all caches", tags=["caches"], opt=VIEWER)
    async def list_cache_stats() -> AllCacheNumbers:
        """Of the process that answers; others have their own."""
        return AllCacheNumbers(caches={name.value: _numbers(cache) for name, cache in caches.registry})

    @get("/api/cache/{name:str}/stats", summary="Get statistics of a cache", tags=["caches"], opt=VIEWER)
    async def get_cache_stats(name: FromPath[str]) -> CacheNumbers:
        """Of the process that answers; others have their own."""
        return _numbers(caches.registry[cache_name(name)])

    @post(
        "/api/cache/clear",
        summary="Clear one cache, or all",
        tags=["caches"],
        status_code=200,
        opt=ADMIN,
    )
    async def clear_caches(data: JSONBody[ClearCacheRequest | None] = None) -> RemovedValues:
        """In every process."""
        name = data.cache_name if data is not None else None
        return RemovedValues(removed=await caches.clear(None if name is None else cache_name(name)))

    @post(
        "/api/cache/cleanup", summary="Remove expired values from caches", tags=["caches"], status_code=200, opt=ADMIN
    )
    async def remove_expired_values() -> RemovedValues:
        """In the process that answers. Expired values are never given out; this only frees their memory."""
        return RemovedValues(removed=caches.registry.cleanup())

    @delete(
        "/api/cache/{name:str}/{key:path}",
        summary="Remove a value from a cache",
        tags=["caches"],
        status_code=200,
        opt=ADMIN,
    )
    async def drop_cached_value(name: FromPath[str], key: FromPath[str]) -> RemovedValues:
        """In every process; 404 when the one that answers did not hold it."""
        chosen, wanted = cache_name(name), key.removeprefix("/")
        if len(wanted) > KEY_LENGTH or not await caches.drop(chosen, wanted):
            raise NotFoundError(
                f"cache {chosen.value} of this process holds no {wanted[:100]!r}; other processes drop it, too",
                code="CACHE_KEY_NOT_FOUND",
            )
        return RemovedValues(removed=1)

    return [list_cache_stats, get_cache_stats, clear_caches, remove_expired_values, drop_cached_value]


def _numbers(cache: Cache[Any]) -> CacheNumbers:
    found = cache.stats()
    return filled(CacheNumbers, found, hit_ratio=round(found.hit_ratio, 4), keys=list(found.keys))
