"""The catalog and the caches, as callers see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from support.clock.clocks import SteppedClock
from support.clock.waiting import until
from support.http.service import Service, error_of, serving
from support.provider.catalog_provider import RTX_4090, CatalogProvider

from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.errors import CircuitOpenError
from corral.store.session.database import Database

JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A served catalog and what stands behind it."""

    service: Service
    provider: CatalogProvider
    book: CacheRegistry
    clock: SteppedClock


@pytest.fixture
async def counter(database: Database) -> AsyncGenerator[Counter]:
    clock = SteppedClock()
    provider = CatalogProvider(clock)
    async with serving(database, cloud=provider, clock=clock) as service:
        book = service.engine.caches.registry
        yield Counter(service=service, provider=provider, book=book, clock=clock)


async def test_templates_are_listed_own_first_and_remembered(counter: Counter) -> None:
    """A form asks for them each time it opens; the provider is asked once."""
    first = (await counter.service.ask("GET", "/api/templates")).json
    second = (await counter.service.ask("GET", "/api/templates")).json

    assert [(t["name"], t["channel"]) for t in first["templates"]] == [
        ("acme-app", "private"),
        ("Zoo", "private"),
        ("pytorch", "official"),
    ]
    assert first["templates"][2] == {
        "id": "107672",
        "name": "pytorch",
        "image": "pytorch:1",
        "ports": [],
        "channel": "official",
    }
    assert first["templates"][0]["ports"] == [{"port": 8080, "type": "http"}]
    assert second == first
    assert counter.provider.calls == {"templates:private": 1, "templates:official": 1}


async def test_two_hundred_callers_of_a_cold_cache_make_one_call(counter: Counter) -> None:
    """The provider is called once for all callers that arrive meanwhile."""
    counter.provider.open.clear()
    asked = [asyncio.create_task(counter.service.ask("GET", "/api/products")) for _ in range(200)]
    await until(lambda: counter.book[CacheName.PRODUCTS].stats().misses >= 50)  # the client has 100 connections
    counter.provider.open.set()
    answers = await asyncio.gather(*asked)

    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert counter.provider.calls == {"products:None:spot": 1}


async def test_products_come_cheapest_first_and_can_be_narrowed(counter: Counter) -> None:
    """By part of the name, by region, by billing mode."""
    everything = (await counter.service.ask("GET", "/api/products")).json
    on_demand = (await counter.service.ask("GET", "/api/products?billingMode=onDemand")).json
    narrowed = (await counter.service.ask("GET", "/api/products?name=3090&region=as-sgp-02&billingMode=onDemand")).json
    elsewhere = (await counter.service.ask("GET", "/api/products?region=AS-IN-01")).json

    assert [p["pricePerGpu"] for p in everything["products"]] == [0.18, 0.35]
    assert [p["pricePerGpu"] for p in on_demand["products"]] == [0.21, 0.35, 0.35]
    assert everything["products"][0] == {
        "id": "4090.16c62g",
        "name": "RTX 4090 24GB",
        "available": True,
        "regions": ["AS-SGP-02 (Singapore)", "CN-HK-01 (Hong Kong)"],
        "cpuPerGpu": 16,
        "memoryPerGpu": 62,
        "pricePerGpu": 0.18,
        "spotPricePerGpu": 0.18,
        "onDemandPricePerGpu": 0.35,
    }
    assert {key: everything[key] for key in ("total", "region", "billingMode")} == {
        "total": 2,
        "region": None,
        "billingMode": "spot",
    }
    assert [(p["id"], p["pricePerGpu"]) for p in narrowed["products"]] == [("3090.16c92g", 0.21)]
    assert [p["id"] for p in elsewhere["products"]] == ["4090.hf.24c58g"]


async def test_the_optimal_product_comes_with_all_that_was_considered(counter: Counter) -> None:
    """Prices are for the whole instance and for one GPU."""
    counter.provider.set_stock(0, RTX_4090, "as-sgp-2")
    query = "name=rtx%204090%2024gb&region=AS-SGP-02&gpuNum=2&maxPrice=0.18"
    answer = await counter.service.ask("GET", f"/api/products/optimal?{query}")

    best = {
        "region": "CN-HK-01",
        "clusterId": "cn-hongkong-1",
        "productId": "4090.16c62g",
        "productName": "RTX 4090 24GB",
        "billingMode": "spot",
        "pricePerGpu": 0.18,
        "price": 0.36,
        "cpuPerGpu": 16,
        "memoryPerGpu": 62,
    }
    assert answer.status == 200
    assert answer.json == {
        "product": best,
        "candidates": [best],
        "rejected": [
            {
                "region": "AS-SGP-02",
                "productId": "4090.16c62g",
                "billingMode": "spot",
                "pricePerGpu": 0.18,
                "reason": "out_of_stock",
                "message": "4090.16c62g is out of stock in AS-SGP-02",
            }
        ],
    }


async def test_what_cannot_be_had_is_a_404_that_explains(counter: Counter) -> None:
    """Unknown, too dear, or a region that does not exist."""
    ask = counter.service.ask

    error_of(await ask("GET", "/api/products/optimal?name=Voodoo2"), 404, "PRODUCT_NOT_FOUND")
    dear = await ask("GET", "/api/products/optimal?name=RTX%204090%2024GB&maxPrice=0.1799&region=MOON-01")
    refused = error_of(dear, 404, "NO_OPTIMAL_PRODUCT_ANY_REGION")
    tried = refused["details"]["tried"]
    assert refused["retryable"] is False
    assert [(t["region"], t["reason"]) for t in tried] == [
        ("MOON-01", "unknown_region"),
        ("AS-SGP-02", "too_dear"),
        ("CN-HK-01", "too_dear"),
    ]
    region = error_of(await ask("GET", "/api/products?region=MOON-01"), 400, "VALIDATION_ERROR")
    assert region["validationErrors"][0]["code"] == "INVALID_REGION"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "name"),
        ("name=", "name"),
        ("name=x&gpuNum=9", "gpuNum"),
        ("name=x&maxPrice=0", "maxPrice"),
        ("name=x&maxPrice=nan", "maxPrice"),
        ("name=x&billingMode=free", "billingMode"),
    ],
)
async def test_a_bad_query_is_refused_before_the_provider_is_called(counter: Counter, query: str, field: str) -> None:
    """The field is named as the caller wrote it."""
    error = error_of(await counter.service.ask("GET", f"/api/products/optimal?{query}"), 400, "VALIDATION_ERROR")

    assert [problem["field"] for problem in error["validationErrors"]] == [field]
    assert not counter.provider.calls


async def test_a_template_is_shown_without_the_values_of_its_variables(counter: Counter) -> None:
    """They are where people put their tokens."""
    answer = await counter.service.ask("GET", "/api/templates/204511")

    assert answer.json == {
        "id": "204511",
        "name": "acme-app",
        "image": "docker.io/acme/app:1.2",
        "imageAuthId": "auth-1",
        "ports": [{"port": 8080, "type": "http"}],
        "tools": [{"name": "Jupyter", "port": 8888, "type": "http"}],
        "envNames": ["TOKEN"],
        "startCommand": "",
        "entrypoint": "",
        "minCudaVersion": "12.4",
    }
    error_of(await counter.service.ask("GET", "/api/templates/1"), 404, "TEMPLATE_NOT_FOUND")
    error_of(await counter.service.ask("GET", "/api/templates/broken"), 502, "INVALID_TEMPLATE")


async def test_an_unreachable_provider_is_reported_as_such(counter: Counter) -> None:
    """The caller may come back; nothing is made up."""
    counter.provider.trouble[None] = CircuitOpenError("the provider keeps failing", retry_after_seconds=5)
    answer = await counter.service.ask("GET", "/api/products")

    assert error_of(answer, 503, "CIRCUIT_BREAKER_OPEN")["retryAfter"] == 5


async def test_statistics_show_what_the_caches_did(counter: Counter) -> None:
    """Of all, or of one by name."""
    for _ in range(4):
        await counter.service.ask("GET", "/api/products")
    one = (await counter.service.ask("GET", "/api/cache/products/stats")).json
    everything = (await counter.service.ask("GET", "/api/cache/stats")).json["caches"]

    assert one == {
        "size": 1,
        "hits": 3,
        "misses": 1,
        "sets": 1,
        "deletes": 0,
        "evictions": 0,
        "hitRatio": 0.75,
        "keys": ["any:spot"],
    }
    assert everything["products"] == one
    assert set(everything) == {name.value for name in CacheName}
    error_of(await counter.service.ask("GET", "/api/cache/nonsense/stats"), 404, "CACHE_NOT_FOUND")


async def test_one_value_can_be_dropped_by_its_key(counter: Counter) -> None:
    """Whatever characters the key has."""
    await counter.service.ask("GET", "/api/products/optimal?name=RTX%204090%2024GB")
    (key,) = counter.book[CacheName.OPTIMAL_PRODUCTS].stats().keys
    counter.book[CacheName.TEMPLATES].put("a/b c%", "v")
    ask = counter.service.ask

    assert (await ask("DELETE", f"/api/cache/optimalProducts/{quote(key, safe='')}")).json == {"removed": 1}
    assert (await ask("DELETE", "/api/cache/templates/a/b%20c%25")).json == {"removed": 1}
    assert (await ask("DELETE", "/api/cache/products/any:spot")).status == 404
    error_of(await ask("DELETE", "/api/cache/templates/a"), 404, "CACHE_KEY_NOT_FOUND")
    error_of(await ask("DELETE", "/api/cache/nonsense/a"), 404, "CACHE_NOT_FOUND")


async def test_caches_can_be_cleared_one_or_all(counter: Counter) -> None:
    """Without a body everything goes."""
    for name, cache in counter.book:
        cache.put("k", name)
    ask = counter.service.ask

    assert (await ask("POST", "/api/cache/clear", data=b'{"cacheName":"templates"}', headers=JSON)).json == {
        "removed": 1
    }
    assert (await ask("POST", "/api/cache/clear")).json == {"removed": len(CacheName) - 1}
    answer = await ask("POST", "/api/cache/clear", data=b'{"cacheName":"nonsense"}', headers=JSON)
    error_of(answer, 404, "CACHE_NOT_FOUND")


async def test_cleanup_removes_only_what_has_expired(counter: Counter) -> None:
    """Products expire after five minutes, templates after ten."""
    for name, cache in counter.book:
        cache.put("k", name)
    counter.clock.advance(300)

    assert (await counter.service.ask("POST", "/api/cache/cleanup")).json == {"removed": 7}
    assert counter.book[CacheName.TEMPLATES].stats().size == 1


async def test_every_field_is_described(counter: Counter) -> None:
    """The docs page says what a number means."""
    schema = (await counter.service.ask("GET", "/schema/openapi.json")).json
    parameters = [
        parameter
        for path in ("/api/products", "/api/products/optimal")
        for parameter in schema["paths"][path]["get"]["parameters"]
    ]
    numbers = schema["components"]["schemas"]["CacheNumbers"]["properties"]

    assert all(parameter.get("description") for parameter in parameters)
    assert all(field.get("description") for field in numbers.values())
    assert (await counter.service.ask("GET", "/docs")).status == 200


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        ("?name=x&maxPrice=0", "must be a number above 0 and at most 10000"),
        ("?name=x&spotFallback=2", "must be true or false"),
        ("?name=x&billingMode=monthly", "must be one of spot, onDemand"),
        ("?name=", "must have 1 to 200 characters"),
        ("", "is required"),
    ],
)
async def test_a_bad_query_says_what_is_accepted(counter: Counter, query: str, accepted: str) -> None:
    """All of it, in plain words."""
    error = error_of(await counter.service.ask("GET", f"/api/products/optimal{query}"), 400, "VALIDATION_ERROR")

    assert [each["message"] for each in error["validationErrors"]] == [accepted]
