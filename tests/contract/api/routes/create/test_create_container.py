"""POST /api/instances with an image, variables, ports and volumes; and GET /api/volumes."""

from __future__ import annotations

from typing import Any

from support.http.served_api import CREATE_BODY, ServedApi

from novitasim.world.account import Storage

CONTAINER: dict[str, Any] = {
    "image": "registry.example.com/acme/app:1",
    "imageAuthId": "auth-1",
    "command": "python serve.py",
    "entrypoint": "",
    "env": {"MODE": "train"},
    "ports": ["9000/http"],
    "volumes": [{"id": "ns-sgp", "mount": "/data"}],
    "minCuda": "12.8",
}
REFUSED: tuple[tuple[dict[str, Any], int, str, str], ...] = (
    ({"volumes": [{"id": "ns-0", "mount": "/a"}]}, 404, "VOLUME_NOT_FOUND", "ns-0"),
    (
        {"volumes": [{"id": "ns-in", "mount": "/a"}]},
        400,
        "VOLUME_ELSEWHERE",
        "the volumes are in AS-IN-01, which is not one of the regions of this request: CN-HK-01, AS-SGP-02",
    ),
    (
        {"volumes": [{"id": "ns-hk", "mount": "/a"}, {"id": "ns-sgp", "mount": "/b"}]},
        400,
        "VOLUME_ELSEWHERE",
        "ns-hk in CN-HK-01, ns-sgp in AS-SGP-02",
    ),
    ({"image": "two words"}, 400, "INVALID_IMAGE", "without spaces"),
    ({"ports": ["80/http", "80/tcp"]}, 400, "INVALID_PORTS", "twice"),
    ({"ports": ["2222/tcp"]}, 400, "INVALID_PORTS", "2222"),
    ({"ports": [f"{n}/http" for n in range(1, 16)]}, 400, "INVALID_PORTS", "there are 16 ports"),
    ({"env": {f"N{n}": "hidden" for n in range(101)}}, 400, "INVALID_ENV", "101 names"),
    ({"env": {f"N{n}": "hidden" for n in range(100)}}, 400, "INVALID_ENV", "there are 101 variables"),
)
"""What is sent, and the status, code and message of the error; the template has one tool and one variable."""
NOTHING = {"instances": 0, "operations": 0, "events": 0, "pgqueuer": 0, "idempotency": 0}


async def test_the_account_s_volumes_are_listed_with_their_regions(api: ServedApi) -> None:
    """By name; and read once for several requests."""
    first = await api.get("/api/volumes")
    await api.get("/api/volumes?again")

    assert first.json == {
        "volumes": [
            {"id": "ns-hk", "name": "Checkpoints", "sizeGb": 200, "clusterId": "cn-hongkong-1", "region": "CN-HK-01"},
            {"id": "ns-sgp", "name": "datasets", "sizeGb": 500, "clusterId": "as-sgp-2", "region": "AS-SGP-02"},
            {"id": "ns-in", "name": "models", "sizeGb": 10, "clusterId": "as-in-1", "region": "AS-IN-01"},
        ]
    }
    assert api.env.provider.calls["volumes"] == 1
    assert (await api.get("/api/cache/volumes/stats")).json["size"] == 1


async def test_every_field_is_recorded_and_shown(api: ServedApi) -> None:
    """In the instance, and in the request that can be sent again; a template is not needed."""
    made = await api.request_create(templateId=None, **CONTAINER)
    path = f"/api/instances/{made.json['instanceId']}"
    shown, request = (await api.get(path)).json, (await api.get(f"{path}/request")).json
    row = (await api.get("/api/instances?fields=summary")).json["instances"][0]
    again = await api.request_create(**{name: request[name] for name in CONTAINER}, templateId=request["templateId"])

    assert (made.status, again.status) == (201, 201)
    assert made.json["region"] == "AS-SGP-02"
    assert {name: shown[name] for name in CONTAINER} == CONTAINER
    assert {name: request[name] for name in CONTAINER} == CONTAINER
    assert (shown["templateId"], request["templateId"], row["templateId"]) == (None, None, None)
    assert row["image"] == CONTAINER["image"]
    assert "env" not in row
    assert api.env.provider.calls["template"] == 0


async def test_what_cannot_run_is_refused_before_anything_is_recorded(api: ServedApi) -> None:
    """Also what only shows with the template's tools and variables, or with the account's volumes."""
    for fields, status, code, says in REFUSED:
        answer = await api.request_create(regions=["CN-HK-01", "AS-SGP-02"], **fields)
        error = answer.json["error"]
        [problem] = error.get("validationErrors", [error])

        assert (answer.status, problem["code"]) == (status, code), fields
        assert says in problem["message"]
        assert "hidden" not in answer.body.decode()
    assert await api.env.counts() == NOTHING


async def test_the_plan_shows_which_regions_the_volumes_exclude(api: ServedApi) -> None:
    """With the reason; an unknown volume is refused as in a create."""
    body = {**CREATE_BODY, "regions": ["CN-HK-01", "AS-SGP-02"], "volumes": CONTAINER["volumes"]}
    plan = (await api.service.ask("POST", "/api/instances?dryRun=true", json=body)).json
    body["volumes"] = [{"id": "ns-in", "mount": "/data"}]
    nowhere = (await api.service.ask("POST", "/api/instances?dryRun=true", json=body)).json
    body["volumes"] = [{"id": "ns-0", "mount": "/data"}]
    unknown = await api.service.ask("POST", "/api/instances?dryRun=true", json=body)

    assert [offer["region"] for offer in plan["candidates"]] == ["AS-SGP-02"]
    assert [(each["region"], each["reason"], each["message"]) for each in plan["rejected"]] == [
        ("CN-HK-01", "volume_elsewhere", "the volumes of this request are not in CN-HK-01")
    ]
    assert nowhere["candidates"] == []
    assert {each["reason"] for each in nowhere["rejected"]} == {"volume_elsewhere"}
    assert unknown.json["error"]["code"] == "VOLUME_NOT_FOUND"
    assert "products:cn-hongkong-1:spot" not in api.env.provider.calls


async def test_a_volume_that_was_just_created_is_found(api: ServedApi) -> None:
    """The list is read again when a volume is missing from it, but not for every request."""
    await api.get("/api/volumes")
    new = Storage(id="ns-new", name="new", size_gb=10, cluster_id="cn-hongkong-1")
    api.env.provider.simulator.world.storages[new.id] = new
    body = {"volumes": [{"id": "ns-new", "mount": "/a"}]}
    too_soon = await api.request_create(**body)
    api.env.clock.advance(3)
    later = await api.request_create(**body)

    assert (too_soon.status, later.status) == (404, 201)
    assert api.env.provider.calls["volumes"] == 2
