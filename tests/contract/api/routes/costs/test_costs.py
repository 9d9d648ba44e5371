"""What usage cost, as callers see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.http.served_api_with_provider import ServedApiWithProvider, staged
from support.http.service import error_of

from corral.store.session.database import Database

GROUPINGS = ("instance", "key", "product", "region", "cause", "day", "label:team")


@pytest.fixture
async def served(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database) as served:
        async with database.connection() as connection:
            for number, (cause, team) in enumerate([("serving", '{"team": "vision"}'), ("orphan", None)]):
                await connection.execute(
                    "INSERT INTO corral_usage (instance_id, provider_id, kind, cause, unit_price, quantity, estimated,"
                    " started_earliest, started_latest, ended_earliest, ended_latest, confirmed_at, follows,"
                    " product_name, region, billing_mode, created_by, labels) VALUES ($1, $1, 'gpu', $2, 24000000, 2,"
                    " $3, '2029-05-01T22:00Z', '2029-05-01T22:30Z', '2029-05-02T01:00Z', '2029-05-02T02:00Z',"
                    " '2029-05-02T01:00Z', false, 'RTX 4090 24GB', 'CN-HK-01', 'spot', 'olga', $4)",
                    f"inst_{number}",
                    cause,
                    cause == "orphan",
                    team,
                )
        yield served


async def test_a_period_is_shown_with_its_bounds_and_groups(served: ServedApiWithProvider) -> None:
    """Two GPUs at 1 USD an hour, twice, for two and a half to four hours."""
    asked = "/api/costs?from=2029-05-01&to=2029-06-01&groupBy="
    for grouping in GROUPINGS:
        answer = (await served.api.get(f"{asked}{grouping}")).json
        assert answer["total"] == {"usd": 13.0, "low": 10.0, "high": 16.0}, grouping
        for bound in ("usd", "low", "high"):
            assert sum(group[bound] for group in answer["groups"]) == pytest.approx(answer["total"][bound], abs=1e-12)
        assert (answer["rest"], answer["estimated"], answer["unknown"]) == (None, True, None)
        assert (answer["from"], answer["to"]) == ("2029-05-01T00:00:00.000Z", "2029-06-01T00:00:00.000Z")
    groups = (await served.api.get(f"{asked}label:team")).json["groups"]
    assert {(group["key"], group["usd"], group["estimated"]) for group in groups} == {
        ("vision", 6.5, False),
        (None, 6.5, True),
    }
    days = (await served.api.get(f"{asked}day")).json["groups"]
    assert [(day["key"], day["low"], day["usd"], day["high"]) for day in days] == [
        ("2029-05-01", 6.0, 7.0, 8.0),
        ("2029-05-02", 4.0, 6.0, 8.0),
    ]


async def test_spans_are_cut_at_the_edges_of_the_period(served: ServedApiWithProvider) -> None:
    """A time with a zone is the same instant as one in UTC."""
    for since in ("2029-05-02T01:00:00Z", "2029-05-02T03:00:00%2B02:00", "2029-05-02T01:00"):
        answer = (await served.api.get(f"/api/costs?from={since}&to=2029-05-02T01:30:00")).json
        assert answer["total"] == {"usd": 1.0, "low": 0.0, "high": 2.0}
        assert answer["groups"] == []


async def test_groups_beyond_the_limit_are_summed(served: ServedApiWithProvider) -> None:
    """Nothing is missing from the answer, however many groups there are."""
    answer = (await served.api.get("/api/costs?from=2029-05-01&to=2029-06-01&groupBy=instance&limit=1")).json
    (group,) = answer["groups"]
    assert answer["rest"] == {"groups": 1, "usd": 6.5, "low": 5.0, "high": 8.0, "days": []}
    assert group["usd"] + answer["rest"]["usd"] == answer["total"]["usd"]


async def test_usage_that_is_not_known_is_shown(served: ServedApiWithProvider, database: Database) -> None:
    """Only where the period contains some of it."""
    async with database.connection() as connection:
        await connection.execute("INSERT INTO corral_usage_gaps VALUES ('', '2029-05-01'), ('inst_0', '2029-05-02Z')")
    lacking = (await served.api.get("/api/costs?from=2029-05-01&to=2029-06-01")).json["unknown"]
    assert lacking == {"before": "2029-05-02T00:00:00.000Z", "instances": 1}
    assert (await served.api.get("/api/costs?from=2029-05-03&to=2029-06-01")).json["unknown"] is None


async def test_without_parameters_it_is_the_present_month(served: ServedApiWithProvider) -> None:
    answer = (await served.api.get("/api/costs")).json
    assert answer["from"].endswith("-01T00:00:00.000Z")
    assert answer["total"] == {"usd": 0.0, "low": 0.0, "high": 0.0}
    assert (answer["groups"], answer["rest"], answer["estimated"]) == ([], None, False)


async def test_a_query_that_is_not_valid_is_refused(served: ServedApiWithProvider) -> None:
    """Every problem is listed at once."""
    refused = {
        "from=yesterday": {"from"},
        "from=2029-13-01": {"from"},
        "to=9999-12-31T23:59:59-23:00": {"to"},
        "from=2029-06-02&to=2029-06-01": {"from"},
        "groupBy=owner": {"groupBy"},
        "groupBy=label": {"groupBy"},
        "groupBy=label:": {"groupBy"},
        "groupBy=label:Team": {"groupBy"},
        "from=x&to=y&groupBy=z": {"from", "to", "groupBy"},
        "limit=0": {"limit"},
        "from=%00": {"from"},
    }
    for query, fields in refused.items():
        problem = error_of(await served.api.get(f"/api/costs?{query}"), 400, "VALIDATION_ERROR")
        assert {each["field"] for each in problem["validationErrors"]} == fields, query
