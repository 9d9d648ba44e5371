"""Labels: given with a create, replaced by a PATCH, shown everywhere, and what lists are filtered by."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import pytest
from support.http.served_api import ServedApi, created
from support.http.service import Answer, error_of

from corral.store.session.database import Database

TEAM = {"team": "vision", "app.kubernetes.io/part-of": "büro"}


async def relabel(api: ServedApi, instance_id: str, labels: object) -> Answer:
    return await api.service.ask("PATCH", f"/api/instances/{instance_id}", json={"labels": labels})


async def listed(api: ServedApi, *filters: tuple[str, str]) -> list[str]:
    """The names in a list of rows, and that a list of whole instances has the same."""
    query = urlencode(filters)
    whole = (await api.get(f"/api/instances?{query}")).json
    rows = (await api.get(f"/api/instances?{query}&fields=summary")).json
    names = [one["name"] for one in whole["instances"]]
    assert ([one["name"] for one in rows["instances"]], rows["total"]) == (names, whole["total"])
    return sorted(names)


async def events_of(api: ServedApi, instance_id: str) -> list[tuple[str, dict[str, str]]]:
    found = (await api.get(f"/api/instances/{instance_id}/events")).json["events"]
    return [(one["event"], one["labels"]) for one in found]


async def test_every_view_shows_the_labels_of_the_request(api: ServedApi) -> None:
    """Of an instance without labels, an empty object."""
    labelled, plain = await created(api, labels=TEAM), await created(api)

    for path in ("/api/instances", "/api/instances?fields=summary", "/api/instances/comprehensive"):
        found = (await api.get(path)).json["instances"]
        assert {one["id"]: one["labels"] for one in found} == {labelled: TEAM, plain: {}}, path
    assert (await api.get(f"/api/instances/{labelled}")).json["labels"] == TEAM
    assert await events_of(api, labelled) == [("instance.created", TEAM)]


async def test_a_patch_replaces_all_labels(api: ServedApi) -> None:
    """Every list shows that at once; the log has one event, and the audit log one line for each change."""
    made = await created(api, labels={"team": "vision", "env": "prod"})
    await listed(api)
    changed = await relabel(api, made, {"team": "audio"})
    shown = (await api.get(f"/api/instances/{made}")).json
    again = await relabel(api, made, {"team": "audio"})
    cleared = await relabel(api, made, {})

    assert (changed.status, changed.json["labels"]) == (200, {"team": "audio"})
    assert changed.json == shown == again.json
    assert cleared.json["labels"] == {}
    assert await listed(api, ("label", "team")) == []
    assert await events_of(api, made) == [
        ("instance.created", {"team": "vision", "env": "prod"}),
        ("instance.labels_changed", {"team": "audio"}),
        ("instance.labels_changed", {}),
    ]
    lines = (await api.get("/api/audit")).json["entries"]
    assert [(line["method"], line["instanceId"], line["status"]) for line in lines if line["method"] == "PATCH"] == [
        ("PATCH", made, 200)
    ] * 3


@pytest.mark.parametrize(
    "labels",
    [
        None,
        [],
        "team:vision",
        {"team": None},
        {"team": 1},
        {"Team": "vision"},
        {"": "vision"},
        {"te:am": "vision"},
        {"t" * 64: "vision"},
        {"team": "v" * 64},
        {"team": "two\nlines"},
        {"team": "\u202etxet"},
        {f"key-{n}": "" for n in range(17)},
    ],
)
async def test_invalid_labels_are_refused_by_both_routes(api: ServedApi, labels: Any) -> None:
    """A create without labels is one without the field; a PATCH must have it."""
    made = await created(api, labels={"team": "vision"})
    answers = [await relabel(api, made, labels)]
    if labels is not None:
        answers.append(await api.request_create(labels=labels))

    for answer in answers:
        (problem,) = error_of(answer, 400, "VALIDATION_ERROR")["validationErrors"]
        assert (problem["field"], problem["code"]) == ("labels", "INVALID_LABELS")
    assert (await api.get(f"/api/instances/{made}")).json["labels"] == {"team": "vision"}
    error_of(await relabel(api, "inst_none", {}), 404, "INSTANCE_NOT_FOUND")


async def test_the_largest_labels_are_accepted(api: ServedApi) -> None:
    """Sixteen of them, with 63 characters each, and with no value."""
    largest = {f"{n:063}": "ö" * 63 for n in range(15)} | {"a": ""}
    made = await created(api, labels=largest)

    assert (await api.get(f"/api/instances/{made}")).json["labels"] == largest
    assert await listed(api, ("label", f"{'0' * 63}:{'ö' * 63}"), ("label", "a:")) == ["trainer"]


@pytest.fixture
async def fleet(api: ServedApi) -> ServedApi:
    for name, labels in (
        ("one", {"team": "vision", "env": "prod"}),
        ("two", {"team": "vision", "env": "test"}),
        ("three", {"team": "audio", "env": "prod", "note": "50%_off: Now"}),
        ("four", {}),
    ):
        await created(api, name=name, labels=labels)
    return api


async def test_lists_are_filtered_by_labels(fleet: ServedApi) -> None:
    """By a key, by a key and its value, and by several, of which each must be there."""
    for filters, names in (
        (["team"], ["one", "three", "two"]),
        (["team:vision"], ["one", "two"]),
        (["team:vision", "env:prod"], ["one"]),
        (["team:vision", "team:audio"], []),
        (["team", "env:prod"], ["one", "three"]),
        (["note:50%_off: Now"], ["three"]),
        (["te"], []),
    ):
        assert await listed(fleet, *(("label", each) for each in filters)) == names, filters
    first = (await fleet.get("/api/instances?label=team:vision&limit=1")).json
    rest = (await fleet.get(f"/api/instances?label=team:vision&after={first['instances'][0]['id']}")).json
    pages = [[one["name"] for one in page["instances"]] for page in (first, rest)]
    assert sorted(pages) == [["one"], ["two"]]  # both were created at the same instant: their ids decide
    assert (first["total"], rest["total"]) == (2, 2)


@pytest.mark.parametrize("text", ["", ":", "Team", "team:a\nb", f"team:{'v' * 64}", *["&label=".join(["a"] * 17)]])
async def test_an_invalid_label_filter_is_refused(api: ServedApi, text: str) -> None:
    """It would otherwise list everything, or nothing, without a reason."""
    answer = await api.get(f"/api/instances?label={quote(text, safe='&=')}")
    (problem, *_) = error_of(answer, 400, "VALIDATION_ERROR")["validationErrors"]
    assert (problem["field"], problem["code"]) == ("label", "INVALID_QUERY")


async def test_lists_are_searched_for_a_text(fleet: ServedApi) -> None:
    """In any case, as it is written: no character of it is a pattern."""
    four = (await fleet.get("/api/instances?name=four")).json["instances"][0]["id"]
    for text, names in (
        ("TEAM:VIS", ["one", "two"]),
        ("Prod", ["one", "three"]),
        ("%_o", ["three"]),
        ("HREE", ["three"]),
        ("cn-hk", ["four", "one", "three", "two"]),
        ("rtx 4090", ["four", "one", "three", "two"]),
        ("local", ["four", "one", "three", "two"]),
        (four[5:], ["four"]),
        ("", ["four", "one", "three", "two"]),
        ('"', []),
        ("one inst", []),
    ):
        assert await listed(fleet, ("q", text)) == names, text
    assert await listed(fleet, ("q", "prod"), ("label", "team:vision"), ("status", "creating")) == ["one"]
    error_of(await fleet.get("/api/instances?q=a%0ab"), 400, "VALIDATION_ERROR")


async def test_a_process_of_an_earlier_release_does_not_drop_labels(api: ServedApi, database: Database) -> None:
    """It writes the record without them, and adds rows without the columns."""
    made = await created(api, labels={"team": "vision"})
    async with database.connection() as connection:
        await connection.execute("UPDATE corral_instances SET record = record - 'labels', product_name = NULL")
    api.service.parts.answers.forget()

    assert (await api.get(f"/api/instances/{made}")).json["labels"] == {"team": "vision"}
    await api.change(made, webhook_url=None)
    assert (await api.get(f"/api/instances/{made}")).json["labels"] == {"team": "vision"}
    assert await listed(api, ("q", "4090")) == ["trainer"]
