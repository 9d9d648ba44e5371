"""The merged listing, as callers see it: our records and the simulated provider's list, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest
from support.http.served_api import opened
from support.http.served_api_with_provider import HONG_KONG, LISTING, ServedApiWithProvider, staged
from support.http.service import error_of

from corral.cache.registry import CacheName
from corral.domain.access import Access
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import Sighting
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database
from corral.store.tables import instances


@pytest.fixture
async def served(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database) as served:
        yield served


def by_source(found: dict[str, Any]) -> dict[str, list[str]]:
    sources: dict[str, list[str]] = {}
    for item in found["instances"]:
        sources.setdefault(item["source"], []).append(item["name"])
    return {source: sorted(names) for source, names in sources.items()}


async def test_every_instance_is_listed_once_with_its_sources(served: ServedApiWithProvider) -> None:
    """What only we know, what only the provider knows, and what both know."""
    await served.api.request_create(name="not-yet-created")
    ours, theirs = await served.managed("ours")
    await served.foreign("foreign-instance")
    found = await served.list()

    assert by_source(found) == {"local": ["not-yet-created"], "merged": ["ours"], "novita": ["foreign-instance"]}
    assert found["total"] == 3
    assert found["sources"] == {"local": 1, "novita": 1, "merged": 1}
    assert found["degraded"] is False
    assert "warning" not in found
    assert set(found["performance"]) == {
        "totalRequestTime",
        "novitaApiTime",
        "localDataTime",
        "mergeProcessingTime",
        "cacheHitRatio",
    }
    (merged,) = (item for item in found["instances"] if item["source"] == "merged")
    details = (await served.api.get(f"/api/instances/{ours}")).json
    assert {name: merged[name] for name in details} == details | {"portMappings": merged["portMappings"], "cost": None}
    assert merged["novitaInstanceId"] == theirs


async def test_the_providers_fields_are_shown_without_secrets(served: ServedApiWithProvider) -> None:
    """Names of environment variables help; their values are passwords more often than not."""
    await served.foreign("lab", envs=[{"key": "HF_TOKEN", "value": "hunter2"}], gpuNum=2)
    (item,) = (await served.list())["instances"]

    assert "hunter2" not in str(item)
    assert item["envs"] == [{"key": "HF_TOKEN", "value": "********"}]
    assert item["id"] == item["novitaInstanceId"]
    assert (item["clusterId"], item["clusterName"], item["region"]) == (
        HONG_KONG,
        "CN-HK-01 (Hong Kong)",
        "CN-HK-01",
    )
    assert (item["imageUrl"], item["kind"], item["gpuNum"]) == ("docker.io/acme/app:1.2", "gpu", 2)
    assert (item["status"], item["dataConsistency"], item["templateId"]) == ("starting", "novita-newer", None)
    assert (item["cpuNum"], item["memory"], item["volumeMounts"]) == (32, 124, [])
    assert [item[name] for name in ("statusError", "endTime", "spotReclaimTime", "error", "operation")] == [None] * 5


async def test_the_provider_wins_on_status(served: ServedApiWithProvider) -> None:
    """It runs, and we have not written that down yet."""
    ours, _ = await served.managed()
    served.sim.advance(10)
    (item,) = (await served.list())["instances"]

    assert (item["status"], item["dataConsistency"]) == ("running", "novita-newer")
    assert [mapping["port"] for mapping in item["portMappings"]] == [8080, 22]
    assert (await served.api.get(f"/api/instances/{ours}")).json["status"] == "starting"


async def test_all_pages_of_the_provider_are_read(served: ServedApiWithProvider) -> None:
    """The original listed the first page and called that everything."""
    names = [f"lab-{number}" for number in range(230)]
    for name in names:
        await served.foreign(name)
    found = await served.list()

    assert sorted(item["name"] for item in found["instances"]) == sorted(names)
    assert found["sources"] == {"local": 0, "novita": 230, "merged": 0}


@pytest.mark.parametrize("default", [True, False])
async def test_what_only_the_provider_knows_can_be_left_out(database: Database, *, default: bool) -> None:
    """By the caller, or by DEFAULT_INCLUDE_NOVITA_ONLY."""
    async with staged(database, listing={"DEFAULT_INCLUDE_NOVITA_ONLY": default}) as served:
        await served.foreign()
        counts = [
            (await served.list(**options))["total"]
            for options in ({}, {"includeNovitaOnly": "true"}, {"includeNovitaOnly": "false"})
        ]

        assert counts == [int(default), 1, 0]


async def test_it_can_be_switched_off(database: Database) -> None:
    """ENABLE_COMPREHENSIVE_LISTING=false: there is no such route, and the answer says why."""
    async with opened(database, listing={"ENABLE_COMPREHENSIVE_LISTING": False}) as api:
        error = error_of(await api.get(LISTING), 404, "NOT_FOUND")

        assert "ENABLE_COMPREHENSIVE_LISTING" in error["message"]


async def test_a_bad_option_is_refused(served: ServedApiWithProvider) -> None:
    """Not taken for false."""
    error = error_of(await served.api.get(f"{LISTING}?includeNovitaOnly=perhaps"), 400, "VALIDATION_ERROR")

    assert [(p["field"], p["code"]) for p in error["validationErrors"]] == [("includeNovitaOnly", "INVALID_QUERY")]


async def test_an_answer_is_reused_for_half_a_minute(served: ServedApiWithProvider) -> None:
    """Each set of options has its own; the provider is asked once for all of them."""
    await served.foreign("early")
    await served.list()
    pages = served.pages()
    await served.foreign("late")
    served.api.env.clock.advance(29)
    again = await served.list()
    assert (await served.list(includeNovitaOnly="false"))["total"] == 0
    assert served.pages() == pages
    served.api.env.clock.advance(1)
    later = await served.list()

    assert (again["total"], again["performance"]["cacheHitRatio"]) == (1, 0.5)
    assert later["total"] == 2


async def test_the_time_of_reuse_is_a_setting(database: Database) -> None:
    """COMPREHENSIVE_CACHE_TTL=0: each question asks the provider."""
    async with staged(database, caches={"COMPREHENSIVE_CACHE_TTL": 0}) as served:
        assert (await served.list())["total"] == 0
        await served.foreign()

        assert (await served.list())["total"] == 1


async def test_a_create_is_in_the_next_response(served: ServedApiWithProvider) -> None:
    """A caller that creates and lists must find it, without another call to the provider."""
    await served.list()
    pages = served.pages()
    await served.api.request_create(name="just-now")

    assert by_source(await served.list()) == {"local": ["just-now"]}
    assert served.pages() == pages


async def test_a_change_by_the_engine_shows_within_a_second(served: ServedApiWithProvider) -> None:
    """Hundreds of changes a second must not mean hundreds of listings."""
    ours, _ = await served.managed(phase=Phase.READY, sighting=Sighting.RUNNING)
    env = served.api.env
    await served.list()
    await served.api.change(
        ours, phase=Phase.FAILED, observation={"sighted_at": env.clock.now() + timedelta(seconds=1)}
    )
    for _ in range(300):
        env.caches.heard_of(CacheName.INSTANCE_DETAILS, ours)
    within = (await served.list())["instances"][0]["status"]
    env.clock.advance(1)
    after = (await served.list())["instances"][0]["status"]

    assert (within, after) == ("starting", "failed")


async def test_what_was_seen_is_recorded_on_demand(served: ServedApiWithProvider) -> None:
    """By the observer's own way: the record changes and a pass is asked for, once."""
    ours, _ = await served.managed()
    served.sim.advance(10)
    env = served.api.env
    env.clock.advance(1)
    jobs = await env.count("corral_pgqueuer")
    await served.list()
    async with env.database.connection() as connection:
        unchanged = await instances.load(connection, ours)
    found = await served.list(syncLocalState="true")
    async with env.database.connection() as connection:
        written = await instances.load(connection, ours)

    assert unchanged is not None
    assert written is not None
    assert (unchanged.observation.sighting, written.observation.sighting) == (Sighting.BOOTING, Sighting.RUNNING)
    assert found["instances"][0]["dataConsistency"] == "consistent"
    assert found["instances"][0]["status"] == "running", "the answer that records it shows it"
    assert await env.count("corral_pgqueuer") == jobs + 1


async def test_recording_takes_an_operator(served: ServedApiWithProvider, database: Database) -> None:
    """It is a GET that writes; a viewer may look, and no more."""
    keys = [
        (await create_key(database, name=access.value, access=access, now=served.api.env.clock.now()))[1]
        for access in (Access.VIEWER, Access.OPERATOR)
    ]
    statuses = [
        (await served.api.service.ask("GET", LISTING + query, headers={"X-API-Key": key})).status
        for key in keys
        for query in ("", "?syncLocalState=false", "?syncLocalState=true")
    ]

    assert statuses == [200, 200, 403, 200, 200, 200]


async def test_recording_can_be_the_default(database: Database) -> None:
    """DEFAULT_SYNC_LOCAL_STATE."""
    async with staged(database, listing={"DEFAULT_SYNC_LOCAL_STATE": True}) as served:
        ours, _ = await served.managed()
        served.sim.advance(10)
        served.api.env.clock.advance(1)
        await served.list()

        assert (await served.api.change(ours)).observation.sighting is Sighting.RUNNING


async def test_an_unreachable_provider_is_a_warning_and_no_error(served: ServedApiWithProvider) -> None:
    """Our own records are always there to be looked at."""
    ours, _ = await served.managed()
    served.sim.fault("error_500", on="list", count=100)
    found = await served.list()

    assert found["degraded"] is True
    assert "only Corral's own records" in found["warning"]
    assert [(item["id"], item["source"], item["dataConsistency"]) for item in found["instances"]] == [
        (ours, "local", "local-newer")
    ]


async def test_an_outage_shows_what_was_listed_a_moment_ago_and_ends_by_itself(served: ServedApiWithProvider) -> None:
    """For a minute what the provider last listed is better than nothing; then it is not."""
    await served.foreign()
    env = served.api.env
    await served.list()
    served.sim.fault("error_500", on="list", count=100)
    env.clock.advance(31)
    short = await served.list()
    env.clock.advance(60)
    long = await served.list()
    served.sim.no_more_faults()
    env.clock.advance(61)
    over = await served.list()

    assert [(found["degraded"], found["total"]) for found in (short, long, over)] == [
        (True, 1),
        (True, 0),
        (False, 1),
    ]
    assert "as of 00:00:00 UTC" in short["warning"]
