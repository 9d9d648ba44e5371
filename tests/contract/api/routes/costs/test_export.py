"""Usage as a file: its lines add up to what the costs are."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
import pytest_asyncio
from support.clock.clocks import SteppedClock
from support.database.usage_rows import add_usage
from support.http.served_api import ServedApi, opened
from support.http.service import error_of

from corral.domain.requests.costs.period import CostRequest
from corral.engine.costs.exports import CostExports
from corral.store.session.database import Database
from corral.store.tables.costs.exported import exported
from corral.views.costs.export import ExportFormat

HOUR: Final = timedelta(hours=1)
PERIOD: Final = "from=2029-12-20T06:00:00Z&to=2029-12-31T12:00:00Z"
BEGIN: Final = datetime(2029, 12, 18, 20, tzinfo=UTC)
NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(shared_database: Database) -> AsyncGenerator[ServedApi]:
    """With spans before, across and within the period, open ones, and some of which little is known."""
    async with opened(shared_database) as api:
        made = (await api.request_create(name="trainer")).json["instanceId"]
        async with shared_database.connection() as connection:
            for number in range(40):
                began = BEGIN + number * 7 * HOUR
                await add_usage(
                    connection,
                    began,
                    began + (1 + number % 60) * HOUR,
                    provider_id=f"m{number}",
                    instance_id=made if number % 2 else None,
                    unit_price=5000 if number % 3 == 0 else 4_320_000,
                    kind="disk" if number % 3 == 0 else "gpu",
                    quantity=1 + number % 4,
                    started_latest=began + timedelta(minutes=number),
                    labels='{"team": "=vision;-audio"}' if number % 4 else None,
                    created_by=None if number % 5 else "@olga",
                    product_name="=HYPERLINK()",
                )
            await add_usage(connection, NOW - 30 * HOUR, provider_id="open", confirmed_at=NOW - 5 * HOUR)
            await add_usage(connection, NOW - 40 * HOUR, provider_id="unbegun", started_latest=None)
        yield api


async def test_the_lines_add_up_to_the_costs_of_every_day(api: ServedApi) -> None:
    """In both formats; no line is in two days."""
    days = (await api.get(f"/api/costs?{PERIOD}&groupBy=day")).json["groups"]
    expected = {day["key"]: (day["usd"], day["low"], day["high"]) for day in days if day["high"]}
    columns = {
        "csv": ("from", "usd", "low", "high"),
        "focus": ("ChargePeriodStart", "BilledCost", "x_CostLow", "x_CostHigh"),
    }
    assert len(expected) == 12
    for chosen, (start, *amounts) in columns.items():
        answer = await api.get(f"/api/costs/export?format={chosen}&{PERIOD}")
        sums = defaultdict[str, list[float]](lambda: [0.0, 0.0, 0.0])
        for line in csv.DictReader(io.StringIO(answer.body.decode(), newline="")):
            for place, name in enumerate(amounts):
                sums[line[start][:10]][place] += float(line[name])

        assert answer.headers["content-type"].startswith("text/csv")
        assert answer.headers["content-disposition"] == f'attachment; filename="corral-costs-{chosen}.csv"'
        assert sums == {day: pytest.approx(cost, abs=1e-9) for day, cost in expected.items()}


async def test_names_and_labels_are_shown_and_begin_no_formula(api: ServedApi) -> None:
    """The name is that of the instance, as long as it is kept."""
    answer = await api.get(f"/api/costs/export?{PERIOD}")
    lines = list(csv.DictReader(io.StringIO(answer.body.decode(), newline="")))

    assert {line["name"] for line in lines} == {"trainer", ""}
    assert {line["productName"] for line in lines} == {"'=HYPERLINK()", "RTX 4090 24GB"}
    assert {line["createdBy"] for line in lines} == {"'@olga", "olga", ""}
    assert {line["labels"] for line in lines} == {"{}", '{"team":"=vision\\u003b-audio"}'}


@pytest.mark.usefixtures("api")
async def test_pieces_are_small_however_long_a_span_is(shared_database: Database) -> None:
    """Between two of them other requests are served."""
    exports = CostExports(shared_database, SteppedClock(), installation="0a1b2c")
    async with shared_database.connection() as connection:
        began = datetime(2027, 1, 1, tzinfo=UTC)
        await add_usage(connection, began, began + timedelta(days=250))
    request = CostRequest(since=began, until=datetime(2028, 1, 1, tzinfo=UTC))
    pieces = [piece async for piece in exports.export(request, ExportFormat.FOCUS)]

    assert [piece.count("\r\n") for piece in pieces] == [101, 100, 50]


@pytest.mark.usefixtures("api")
async def test_pages_of_any_size_have_the_same_lines(shared_database: Database) -> None:
    """Also when every span of a page lies outside of the period."""
    since, until = datetime(2029, 12, 20, 6, tzinfo=UTC), datetime(2029, 12, 31, 12, tzinfo=UTC)
    whole: list[object] = []
    for limit in (1000, 1, 7):
        found = list[object]()
        after: int | None = 0
        async with shared_database.connection() as connection:
            while after is not None:
                parts, after = await exported(connection, since=since, until=until, now=NOW, after=after, limit=limit)
                found += parts
        whole = whole or found
        assert found == whole
    assert len(whole) > 60


async def test_the_days_of_groups_add_up_too(api: ServedApi) -> None:
    """And those of the groups beyond the limit."""
    for grouping in ("instance", "label:team", "cause"):
        answer = (await api.get(f"/api/costs?{PERIOD}&groupBy={grouping}&perDay=true&limit=1")).json
        parts = [*answer["groups"], *([answer["rest"]] if answer["rest"] else [])]
        for name in ("usd", "low", "high"):
            assert sum(part[name] for part in parts) == pytest.approx(answer["total"][name])
            for part in parts:
                assert sum(day[name] for day in part["days"]) == pytest.approx(part[name])
    plain = (await api.get(f"/api/costs?{PERIOD}&groupBy=cause")).json
    assert [group["days"] for group in plain["groups"]] == [[]]


async def test_what_cannot_be_exported_is_refused(api: ServedApi) -> None:
    """With the parameter that is wrong."""
    for query, field in (
        ("format=xls", "format"),
        ("from=soon", "from"),
        ("to=0001-01-01", "to"),
        ("from=2030-01-02&to=2030-01-01", "from"),
        ("from=2999-01-01", "from"),
    ):
        error = error_of(await api.get(f"/api/costs/export?{query}"), 400, "VALIDATION_ERROR")
        assert [each["field"] for each in error["validationErrors"]] == [field]
    error_of(await api.get("/api/costs?perDay=true&groupBy=day"), 400, "VALIDATION_ERROR")
    assert (await api.service.ask("HEAD", "/api/costs/export")).body == b""
