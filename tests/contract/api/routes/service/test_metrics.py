"""The fleet in numbers, as callers see it."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.engines.known import BILLED
from support.http.served_api import ServedApi, opened
from support.http.service import error_of

from corral.domain.instance import ProviderId
from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import Database

NO_INSTANCES = {"p50Ms": None, "p90Ms": None}

RUNS: dict[str, Any] = {"provider_id": ProviderId("gpu-1"), "observation": {"meter": BILLED}}


async def test_the_summary_shows_the_whole_fleet(api: ServedApi) -> None:
    """Two creates, one of which the provider has started."""
    made = [(await api.request_create()).json for _ in range(2)]
    await api.change(made[0]["instanceId"], phase=Phase.STARTING, **RUNS)
    answer = await api.get("/api/metrics")
    body = answer.json

    assert answer.status == 200
    caches = body.pop("caches")
    assert body == {
        "timestamp": "2030-01-01T00:00:00.000Z",
        "instances": {
            "total": 2,
            "byStatus": {**dict.fromkeys(map(str, Phase), 0), "creating": 1, "starting": 1},
        },
        "usdPerHour": made[0]["price"],
        "timeToReady": NO_INSTANCES,
        "readinessLag": NO_INSTANCES,
        "queue": {
            "pending": 2,
            "processing": 0,
            "failed": 0,
            "oldestPendingAgeMs": body["queue"]["oldestPendingAgeMs"],
        },
        "webhooks": {"pending": 0, "oldestAgeMs": None, "failed24h": 0},
        "provider": {"breaker": "CLOSED", "budgetPerMinute": 300, "callsLastMinute": 0},
    }
    assert body["queue"]["oldestPendingAgeMs"] >= 0
    assert caches["templates"] == {"size": 1, "hitRatio": 0.5}  # the second create found what the first had loaded


async def test_old_clients_find_ready_instances_under_their_word(database: Database) -> None:
    """CORRAL_READY_STATUS=running holds here too."""
    async with opened(database, ready_word="running") as api:
        made = (await api.request_create()).json
        await api.change(made["instanceId"], phase=Phase.READY, **RUNS)
        found = (await api.get("/api/metrics")).json["instances"]

    assert found["byStatus"]["running"] == 1
    assert "ready" not in found["byStatus"]
    assert found["total"] == 1


async def test_the_history_goes_up_to_now_in_equal_steps(api: ServedApi) -> None:
    """So that a chart can be drawn from it as it is."""
    body = (await api.get("/api/metrics/history?hours=2")).json
    ends = [datetime.fromisoformat(point["at"]) for point in body["points"]]

    assert (body["from"], body["stepSeconds"], body["usd"]) == ("2029-12-31T22:00:00.000Z", 120, 0)
    assert body["points"][-1] == {
        "at": "2030-01-01T00:00:00.000Z",
        "usdPerHour": 0,
        "becameReady": 0,
        "timeToReady": NO_INSTANCES,
        "readinessLag": NO_INSTANCES,
    }
    assert {(b - a).total_seconds() for a, b in pairwise(ends)} == {120}


@pytest.mark.parametrize("hours", ["0", "721", "-1", "1.5", "x", ""])
async def test_an_odd_number_of_hours_is_refused(api: ServedApi, hours: str) -> None:
    """By its name, as every bad query is."""
    error = error_of(await api.get(f"/api/metrics/history?hours={hours}"), 400, "VALIDATION_ERROR")

    assert [(e["field"], e["code"]) for e in error["validationErrors"]] == [("hours", "INVALID_QUERY")]


async def test_every_replica_exports_the_same_fleet_metrics(api: ServedApi) -> None:
    """Read from the database when scraped; nothing was counted along in this process."""
    made = (await api.request_create()).json
    await api.change(made["instanceId"], phase=Phase.STARTING, **RUNS)
    answer = await api.get("/metrics")
    reported = samples(answer.body)

    kind, *parameters = answer.headers["content-type"].split("; ")
    assert kind == "text/plain"
    assert sorted(parameters) == ["charset=utf-8", "version=1.0.0"], "a scraper refuses a parameter that is repeated"
    assert reported["corral_instances", "starting"] == 1
    assert reported["corral_instances", "ready"] == 0
    assert reported["corral_usd_per_hour",] == made["price"]
    assert reported["corral_jobs_waiting", "pending"] == 1
    assert reported["corral_queue_oldest_pending_seconds",] > 0
    assert reported["corral_outbox_oldest_pending_seconds",] == 0
    assert reported["corral_provider_budget_per_minute",] == 300


async def test_without_a_database_the_process_still_exports_its_own_metrics(api: ServedApi, database: Database) -> None:
    """A scrape that fails would hide the outage; a number that is not known is left out."""
    await database.close()
    reported = samples((await api.get("/metrics")).body)

    assert ("corral_instances", "ready") not in reported
    assert reported["corral_passes_total", "settled"] == 0


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """By name and label values."""
    families = text_string_to_metric_families(text.decode())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
