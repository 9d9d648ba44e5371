"""Budgets over HTTP: who sets and reads them, what is refused, and what the plan and the error of a create say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from support.http.served_api import CREATE_BODY, ServedApi, opened
from support.http.service import Answer, error_of, serving

from corral.base.clock import SystemClock
from corral.domain.access import Access
from corral.engine.auth.api_keys import create_key
from corral.store.session.database import Database

ONE_GPU = {**CREATE_BODY, "gpuNum": 1}
DAY = {"scope": "label:team=vision", "period": "day", "limitUsd": 200, "onLimit": "stop", "thresholds": [1, 0.5]}


@pytest.fixture
async def api(database: Database) -> AsyncGenerator[ServedApi]:
    async with opened(database) as api:
        yield api


async def put(api: ServedApi, name: str, body: object) -> Answer:
    return await api.service.ask("PUT", f"/api/budgets/{name}", json=body)


async def test_a_budget_is_set_read_replaced_and_removed(api: ServedApi) -> None:
    """With how it stands; each change has its audit line, and a second removal finds nothing."""
    made = await put(api, "vision", DAY)
    shown = {**DAY, "name": "vision", "thresholds": [0.5, 1.0], "limitUsd": 200.0, "spent": 0.0, "reserved": 0.0}
    resets = made.json["resetsAt"]
    assert (made.status, made.json) == (201, {**shown, "resetsAt": resets})
    assert resets.endswith("T00:00:00.000Z")
    assert (await api.get("/api/budgets/vision")).json == made.json
    replaced = await put(api, "vision", {"scope": "all", "period": "total", "limitUsd": "1.5"})
    assert replaced.status == 200
    assert replaced.json == {
        "name": "vision",
        "scope": "all",
        "period": "total",
        "limitUsd": 1.5,
        "onLimit": "refuse",
        "thresholds": [0.5, 0.8, 1.0],
        "spent": 0.0,
        "reserved": 0.0,
        "resetsAt": None,
    }
    assert (await api.get("/api/budgets")).json == {"budgets": [replaced.json]}
    removed = await api.service.ask("DELETE", "/api/budgets/vision")
    assert (removed.status, removed.json) == (200, replaced.json)
    assert (await api.get("/api/budgets")).json == {"budgets": []}
    error_of(await api.service.ask("DELETE", "/api/budgets/vision"), 404, "BUDGET_NOT_FOUND")
    error_of(await api.get("/api/budgets/vision"), 404, "BUDGET_NOT_FOUND")
    for name in ("%00", "%F0%9F%92%A3", "x" * 300):
        error_of(await api.get(f"/api/budgets/{name}"), 404, "BUDGET_NOT_FOUND")
    lines = (await api.get("/api/audit")).json["entries"]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("PUT", "/api/budgets/vision label:team=vision day 200 USD stop", 200),
        ("PUT", "/api/budgets/vision all total 1.5 USD refuse", 200),
        ("DELETE", "/api/budgets/vision", 200),
        ("DELETE", "/api/budgets/vision", 404),
    ]


async def test_a_user_of_a_proxy_can_have_a_budget(api: ServedApi) -> None:
    """Also with a name that no key can have."""
    for name in ("olga+gpu@example.com", r"EXAMPLE\olga", "google-oauth2|1234", "u:" + 98 * "x"):
        made = await put(api, "olga", {**DAY, "scope": f"key:{name}"})
        assert made.json["scope"] == f"key:{name}"


async def test_thresholds_that_are_stored_alike_are_one(api: ServedApi) -> None:
    """Each is reported by an event of its own, so one that is there twice would be reported twice."""
    made = await put(api, "vision", {**DAY, "thresholds": [0.5, 0.50000000001, "0.5000000002", 1]})

    assert made.json["thresholds"] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("name", "body", "wrong"),
    [
        ("b", [], {"(body)": "VALIDATION_ERROR"}),
        ("b", {}, {"scope": "INVALID_SCOPE", "period": "INVALID_PERIOD", "limitUsd": "INVALID_LIMIT"}),
        (
            "-b",
            {"scope": "label:Team=x", "period": "week", "limitUsd": 0, "onLimit": "delete", "thresholds": [0]},
            {
                "name": "INVALID_BUDGET_NAME",
                "scope": "INVALID_SCOPE",
                "period": "INVALID_PERIOD",
                "limitUsd": "INVALID_LIMIT",
                "onLimit": "INVALID_ON_LIMIT",
                "thresholds": "INVALID_THRESHOLDS",
            },
        ),
        ("b", {**DAY, "scope": "all:x"}, {"scope": "INVALID_SCOPE"}),
        ("b", {**DAY, "scope": "key:"}, {"scope": "INVALID_SCOPE"}),
        ("b", {**DAY, "scope": "label:team"}, {"scope": "INVALID_SCOPE"}),
        ("b", {**DAY, "limitUsd": 1e12}, {"limitUsd": "INVALID_LIMIT"}),
        ("b", {**DAY, "thresholds": [0.1] * 11}, {"thresholds": "INVALID_THRESHOLDS"}),
        ("b", {**DAY, "thresholds": [True]}, {"thresholds": "INVALID_THRESHOLDS"}),
    ],
)
async def test_all_problems_of_a_budget_are_named_at_once(
    api: ServedApi, name: str, body: object, wrong: dict[str, str]
) -> None:
    """And nothing is stored."""
    found = error_of(await put(api, name, body), 400, "VALIDATION_ERROR")

    assert {each["field"]: each["code"] for each in found["validationErrors"]} == wrong
    assert (await api.get("/api/budgets")).json == {"budgets": []}


async def test_admins_set_budgets_and_viewers_read_them(database: Database) -> None:
    """An operator, who creates instances, cannot raise the limit on them."""
    keys = {
        access: (await create_key(database, name=access.value, access=access, now=SystemClock().now()))[1]
        for access in Access
    }
    async with serving(database, local_only=False) as service:

        async def ask(method: str, path: str, access: Access) -> int:
            headers = {"x-api-key": keys[access]}
            body: dict[str, Any] = {"json": DAY} if method == "PUT" else {}
            return (await service.ask(method, path, headers=headers, **body)).status

        assert [await ask("PUT", "/api/budgets/b", each) for each in Access] == [403, 403, 201]
        assert [await ask("GET", "/api/budgets/b", each) for each in Access] == [200, 200, 200]
        assert [await ask("GET", "/api/budgets", each) for each in Access] == [200, 200, 200]
        assert [await ask("DELETE", "/api/budgets/b", each) for each in Access] == [403, 403, 200]


async def test_a_refused_create_says_which_budget_and_what_is_left(api: ServedApi) -> None:
    """402 with the numbers and a next step; the plan says so before, and changes nothing."""
    await put(api, "small", {"scope": "all", "period": "hour", "limitUsd": 0.2})
    before = await api.service.ask("POST", "/api/instances?dryRun=true", json=ONE_GPU)
    (planned,) = before.json["budgets"]
    assert (planned["budget"], planned["wanted"], planned["refuses"]) == ("small", 0.18, False)
    assert (await api.request_create(gpuNum=1)).status == 201
    again = await api.service.ask("POST", "/api/instances?dryRun=true", json=ONE_GPU)
    assert again.json["budgets"][0]["refuses"] is True
    refused = error_of(await api.request_create(gpuNum=1), 402, "BUDGET_EXCEEDED")

    assert refused["details"] == {
        "budget": "small",
        "limit": 0.2,
        "spent": 0.0,
        "reserved": 0.18,
        "wanted": 0.18,
        "resetsAt": planned["resetsAt"],
    }
    assert refused["retryable"] is False
    assert "corral budgets set" in refused["nextStep"]
    assert len((await api.get("/api/instances")).json["instances"]) == 1


async def test_a_patch_changes_protection_labels_or_both(api: ServedApi) -> None:
    """What is left out stays; nothing at all is an invalid request."""
    made = (await api.request_create(protected=True, labels={"team": "a"})).json["instanceId"]

    async def patch(body: object) -> Answer:
        return await api.service.ask("PATCH", f"/api/instances/{made}", json=body)

    async def shown() -> tuple[bool, dict[str, str]]:
        found = (await api.get(f"/api/instances/{made}")).json
        return found["protected"], found["labels"]

    assert await shown() == (True, {"team": "a"})
    assert (await patch({"protected": False})).status == 200
    assert await shown() == (False, {"team": "a"})
    await patch({"labels": {"team": "b"}, "protected": True})
    assert await shown() == (True, {"team": "b"})
    wrong = error_of(await patch({"protected": "yes"}), 400, "VALIDATION_ERROR")
    assert wrong["validationErrors"][0]["code"] == "INVALID_PROTECTED"
    error_of(await patch({}), 400, "VALIDATION_ERROR")
    lines = (await api.get("/api/audit")).json["entries"]
    assert [line["status"] for line in lines if line["method"] == "PATCH"] == [200, 200, 400, 400]
