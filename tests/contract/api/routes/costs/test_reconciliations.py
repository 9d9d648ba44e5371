"""Days compared with the bill, as callers see them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from support.http.served_api_with_provider import ServedApiWithProvider, staged

from corral.store.session.database import Database

PATH = "/api/costs/reconciliations"
DAY = "2029-12-31"
NOW = "2030-01-01T00:00:00.000Z"


@pytest.fixture
async def served(database: Database) -> AsyncGenerator[ServedApiWithProvider]:
    """On the next midnight; the day before, a machine that Corral does not know was billed for two hours."""
    async with staged(database) as served:
        midnight = served.api.env.clock.now().timestamp()
        served.sim.advance(midnight - served.sim.now() - 7200 - 2)
        await served.foreign(rootfsSize=60)
        served.sim.advance(2 + 7200 + 600)
        yield served


async def compare(served: ServedApiWithProvider, body: object = None) -> tuple[int, dict[str, object]]:
    answer = await served.api.service.ask("POST", PATH, **({} if body is None else {"json": body}))
    return answer.status, answer.json


async def test_a_day_is_compared_on_request_and_then_shown(served: ServedApiWithProvider) -> None:
    status, day = await compare(served)
    listed = (await served.api.get(PATH)).json["reconciliations"]
    one = (await served.api.get(f"{PATH}?day={DAY}")).json["reconciliations"]
    audit = (await served.api.get("/api/audit")).json["entries"]

    (machine,) = served.sim.instances()
    assert status == 200
    assert day == {
        "day": DAY,
        "state": "reconciled",
        "attemptedAt": NOW,
        "attempts": 1,
        "retryAt": None,
        "problem": None,
        "usage": {"usd": 0.0, "low": 0.0, "high": 0.0},
        "billed": 0.7,
        "difference": 0.7,
        "other": 0.0,
        "paid": 0.7,
        "counts": {
            "match": 0,
            "within_bounds": 0,
            "price_changed": 0,
            "missing_bill": 0,
            "over_billed": 0,
            "unknown_machine": 1,
        },
        "unreadableRows": 0,
        "machines": [
            {
                "novitaInstanceId": machine.id,
                "instanceId": None,
                "outcome": "unknown_machine",
                "usage": {"usd": 0.0, "low": 0.0, "high": 0.0},
                "billed": 0.7,
                "difference": 0.7,
                "reason": "0.7 USD are billed for a machine of which there is no usage; it is called foreign-instance",
                "name": "foreign-instance",
                "orphan": False,
            }
        ],
    }
    assert one == [day]
    assert listed == [day | {"machines": []}]
    assert [(line["route"], line["status"]) for line in audit] == [(PATH, 200)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"day": "2030-01-01"}, "must be over: the bill of a day is complete only then"),
        ({"day": "31.12.2029"}, "must be a day such as 2026-11-17"),
        ({"day": "20291231"}, "must be a day such as 2026-11-17"),
        ({"day": 7}, "must be a day such as 2026-11-17"),
    ],
)
async def test_a_day_that_cannot_be_compared_is_refused(
    served: ServedApiWithProvider, body: object, message: str
) -> None:
    answer = await served.api.service.ask("POST", PATH, json=body)

    assert answer.status == 400
    assert [(p["field"], p["code"], p["message"]) for p in answer.json["error"]["validationErrors"]] == [
        ("day", "INVALID_DAY", message)
    ]
    assert "bills" not in served.sim.calls()["endpoints"]


async def test_a_day_without_a_result_is_not_found_and_a_wrong_one_refused(served: ServedApiWithProvider) -> None:
    unknown, wrong = await served.api.get(f"{PATH}?day=2029-12-30"), await served.api.get(f"{PATH}?day=2029-02-30")

    assert (unknown.status, unknown.json["error"]["code"]) == (404, "RECONCILIATION_NOT_FOUND")
    assert wrong.status == 400
    assert (await served.api.get(PATH)).json == {"reconciliations": []}


async def test_an_unreachable_bill_is_an_error_that_the_day_keeps(served: ServedApiWithProvider) -> None:
    served.sim.fault("unauthorized", on="bills", count=9)

    status, error = await compare(served, {"day": DAY})
    (day,) = (await served.api.get(PATH)).json["reconciliations"]

    assert (status, error["error"]["code"]) == (502, "AUTHENTICATION_FAILED")  # type: ignore[index]
    assert (day["state"], day["usage"], day["billed"], day["counts"]) == ("unreachable", None, None, {})
    assert "NOVITA_API_KEY" in day["problem"]
    assert day["retryAt"] == "2030-01-01T01:00:00.000Z"
