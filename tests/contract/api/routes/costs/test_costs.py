"""What usage cost, as callers see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest
from support.http.served_api_with_provider import ServedApiWithProvider, staged
from support.http.service import error_of

from corral.store.session.database import Database
from corral.store.tables.costs import usage

GROUPINGS = ("instance", "key", "product", "region", "cause", "day", "label:team")


START = datetime(2029, 5, 1, 22, tzinfo=UTC)
ROW = {
    "kind": "gpu", "cause": "serving", "unit_price": 24_000_000, "quantity": 2, "estimated": False,
    "started_earliest": START, "started_latest": START + timedelta(minutes=30),
    "ended_earliest": START + timedelta(hours=3), "ended_latest": START + timedelta(hours=4),
    "confirmed_at": START + timedelta(hours=3), "follows": False, "product_name": "RTX 4090 24GB",
    "region": "CN-HK-01", "billing_mode": "spot", "created_by": "olga", "labels": None,
}  # fmt: skip


async def insert(database: Database, instance_id: str, **changed: object) -> None:
    """A row of usage that differs from ROW as given."""
    row = {"instance_id": instance_id, "provider_id": instance_id, **ROW, **changed}
    places = ", ".join(f"${place}" for place in range(1, len(row) + 1))
    async with database.connection() as connection:
        await connection.execute(
            f"INSERT INTO corral_usage ({', '.join(row)}) VALUES ({places})",  # noqa: S608  # names of columns
            *row.values(),
        )


@pytest.fixture
async def served(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    async with staged(database) as served:
        await insert(database, "inst_0", labels='{"team": "vision"}')
        await insert(database, "inst_1", cause="orphan", estimated=True)
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


async def test_groups_are_the_same_and_in_the_same_order_with_their_days(
    served: ServedApiWithProvider, database: Database
) -> None:
    """What was billed for no time in the period is in neither; what has no price yet is in both."""
    at_once = dict.fromkeys(("started_earliest", "started_latest", "ended_earliest", "ended_latest"), START)
    await insert(database, "inst_2", created_by="ada", unit_price=0)
    await insert(database, "inst_3", created_by="bob", **at_once)
    await insert(database, "inst_4", created_by="")
    await insert(database, "inst_5", created_by=None)
    asked = "/api/costs?from=2029-05-01&to=2029-06-01&groupBy=key"
    for days in ("", "&perDay=true"):
        groups = (await served.api.get(f"{asked}{days}")).json["groups"]
        assert [group["key"] for group in groups] == ["olga", None, "", "ada"]
        assert (await served.api.get(f"{asked}{days}&limit=1")).json["rest"]["groups"] == 3


async def test_a_machine_without_a_record_did_not_begin_after_its_end(
    served: ServedApiWithProvider, database: Database
) -> None:
    """It may not have been billed at all: the lower bound is 0, and the amount is not below it."""
    await insert(database, "inst_2", cause="orphan", started_latest=None, ended_earliest=None, created_by="ada")
    async with database.connection() as connection:
        await usage.end_unlisted(connection, [], START + timedelta(days=9))
    groups = (await served.api.get("/api/costs?from=2029-05-01&to=2029-06-01&groupBy=key")).json["groups"]
    (found,) = (group for group in groups if group["key"] == "ada")

    assert (found["low"], found["usd"], found["high"]) == (0.0, 3.0, 8.0)


async def test_a_query_that_is_not_valid_is_refused(served: ServedApiWithProvider) -> None:
    """Every problem is listed at once."""
    refused = {
        "from=yesterday": {"from"},
        "from=2029-13-01": {"from"},
        "to=9999-12-31T23:59:59-23:00": {"to"},
        "from=2029-06-02&to=2029-06-01": {"from"},
        "from=2999-01-01": {"from"},
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
