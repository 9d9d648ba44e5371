"""The provider's quirks over HTTP: shapes, and every variant of undocumented behaviour."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import ClientSession

from novitasim.testing import Simulated, start_simulator


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    async with start_simulator() as simulated:
        yield simulated


async def shown(sim: Simulated, instance_id: str) -> dict[str, Any]:
    status, body = await sim.ask("/gpu/instance", instanceId=instance_id)
    assert status == 200
    return dict(body)


async def test_numbers_are_text_where_the_provider_writes_text(sim: Simulated) -> None:
    instance_id = await sim.create(gpuNum=2)
    instance = await shown(sim, instance_id)
    products = (await sim.ask("/products"))[1]["data"]

    assert (instance["cpuNum"], instance["memory"], instance["gpuNum"]) == ("32", "124", "2")
    assert (instance["rootfsSize"], instance["endTime"]) == (60, "-1")
    assert instance["createdAt"] == str(int(sim.now()))
    assert (products[0]["price"], products[0]["spotPrice"]) == ("35000", "18000")
    assert products[0]["monthlyPrice"][0] == {"price": 22680000, "month": 1}
    assert products[0]["regions"][0] == "US-CA-06 (California)"


async def test_a_product_shows_the_stock_of_the_cluster_asked_for(sim: Simulated) -> None:
    sim.set_stock("4090.16c62g", "us-ca-6", 0)
    sim.set_stock("4090.16c62g", "as-sgp-2", 2)

    async def stock(**query: object) -> tuple[bool, str]:
        found = (await sim.ask("/products", productName="4090", **query))[1]["data"]
        product = next(item for item in found if item["id"] == "4090.16c62g")
        return product["availableDeploy"], product["inventoryState"]

    assert await stock(clusterId="us-ca-6") == (False, "none")
    assert await stock(clusterId="as-sgp-2") == (True, "low")
    assert await stock(clusterId="as-sgp-2", gpuNum=4) == (False, "none")
    assert await stock() == (True, "high")


async def test_templates_group_ports_by_type_and_have_a_capital_id(sim: Simulated) -> None:
    _, body = await sim.ask("/template", templateId="107715")
    _, listed = await sim.ask("/templates", channel="official,private", isMyCommunity="false")

    assert body["template"]["Id"] == "107715"
    assert body["template"]["ports"] == [{"type": "http", "ports": [8080, 8888]}, {"type": "tcp", "ports": [22]}]
    assert {template["channel"] for template in listed["template"]} == {"official", "private"}


async def test_the_private_templates_auth_is_an_id_of_the_registry_auths(sim: Simulated) -> None:
    template = (await sim.ask("/template", templateId="204511"))[1]["template"]
    auths = (await sim.ask("/repository/auths"))[1]["data"]

    assert [auth["id"] for auth in auths] == [template["imageAuth"]]


async def test_a_template_can_be_as_broken_as_a_test_needs(sim: Simulated) -> None:
    sim.odd_template({"Id": "9", "ports": [{"type": "udp", "ports": ["x"]}]})

    assert await sim.ask("/template", templateId="9") == (
        200,
        {"template": {"Id": "9", "ports": [{"type": "udp", "ports": ["x"]}]}},
    )


async def test_an_unknown_instance_is_400_and_json(sim: Simulated) -> None:
    assert await sim.ask("/gpu/instance", instanceId="nothing") == (
        400,
        {"code": 400, "reason": "RESOURCE_NOT_FOUND", "message": "instance not found", "metadata": {}},
    )


async def test_a_body_that_is_not_an_object_is_refused(sim: Simulated) -> None:
    status, body = await sim.ask("/gpu/instance/create", ["not", "an", "object"])

    assert (status, body["reason"]) == (400, "VALIDATOR_PARAM")


async def test_a_running_instance_shows_how_to_connect(sim: Simulated) -> None:
    instance_id = await sim.create(tools=[{"name": "Jupyter", "port": "8888", "type": "http"}])
    assert (await shown(sim, instance_id))["connectComponentSSH"]["isRunning"] is False
    sim.advance(10)

    instance = await shown(sim, instance_id)

    assert instance["connectComponentSSH"]["sshCommand"].startswith("ssh -p ")
    assert instance["connectComponentJupyter"]["port"] == 8888
    assert instance["connectComponentWebTerminal"]["address"].startswith("http://127.0.0.1:")
    assert instance["connectComponentLog"]["isRunning"] is True
    assert [mapping["port"] for mapping in instance["portMappings"]] == [8080, 22, 8888]


@pytest.mark.parametrize(
    ("quirk", "act", "expected"),
    [
        ({"start_stop_answer": "pair"}, "stop", {"instanceId": "ID", "state": "toStop"}),
        ({"start_stop_answer": "object"}, "stop", {}),
        ({"start_stop_answer": "empty"}, "stop", None),
        ({"act_answer": "object"}, "delete", {}),
        ({"act_answer": "empty"}, "delete", None),
        ({"act_answer": "pair"}, "restart", {"instanceId": "ID", "state": "toRestart"}),
        ({"migrate_answer": "ids"}, "migrate", {"instanceId": "ID", "newInstanceId": "ID"}),
        ({"migrate_answer": "empty"}, "migrate", None),
    ],
)
async def test_actions_answer_in_every_form_clients_have_seen(
    sim: Simulated, quirk: dict[str, object], act: str, expected: dict[str, str] | None
) -> None:
    sim.set(**quirk)
    instance_id = await sim.create()
    sim.advance(10)

    status, body = await sim.ask(f"/gpu/instance/{act}", {"instanceId": instance_id})

    assert status == 200
    assert body == (expected and {key: instance_id if value == "ID" else value for key, value in expected.items()})


def _first_price(body: Any) -> Any:
    return body["data"][0]["price"]


@pytest.mark.parametrize(
    ("quirk", "path", "look", "expected"),
    [
        ({"price_type": "number"}, "/products", _first_price, 35000),
        ({"region_names": "short"}, "/products", lambda body: body["data"][0]["regions"][0], "US-CA-06"),
        ({"region_names": "id"}, "/products", lambda body: body["data"][0]["regions"][0], "us-ca-6"),
        ({"region_names": "empty"}, "/products", lambda body: body["data"][0]["regions"], []),
        ({"cpu_products_wrapped": False}, "/cpu/products", lambda body: body[0]["price"], 4000),
        ({"templates_need_channel": True}, "/templates", lambda body: body["reason"], "VALIDATOR_PARAM"),
        ({"list_needs_paging": True}, "/gpu/instances", lambda body: body["reason"], "VALIDATOR_PARAM"),
        ({"networks_key": "networks"}, "/networks", lambda body: body, {"networks": [], "total": "0"}),
        ({"error_metadata": False}, "/network", lambda body: "metadata" in body, False),
        ({"not_found_words": "not fount"}, "/network", lambda body: body["message"], "network not fount"),
        ({"not_found_status": 404}, "/template", lambda body: body["code"], 404),
    ],
)
async def test_shapes_follow_the_settings(
    sim: Simulated, quirk: dict[str, object], path: str, look: Any, expected: object
) -> None:
    sim.set(**quirk)

    _, body = await sim.ask(path)

    assert look(body) == expected


async def test_an_instances_shape_follows_the_settings(sim: Simulated) -> None:
    instance_id = await sim.create(billingMode="spot")
    sim.set(endpoints_when_down="absent", billing_mode_early="empty", node_shape="array", spot_in_get=False)
    early = await shown(sim, instance_id)
    sim.set(endpoints_when_down="kept", extras_in_get=False)
    kept = await shown(sim, instance_id)
    sim.set(endpoint_in_list=False, extras_in_list=False)
    (item,) = (await sim.ask("/gpu/instances"))[1]["instances"]

    assert early["portMappings"] == [{"port": 8080, "type": "http"}, {"port": 22, "type": "tcp"}]
    assert (early["billingMode"], early["node"]) == ("", [{"maxRootfsSize": 3000}])
    assert "spotStatus" not in early
    assert kept["portMappings"][0]["endpoint"].startswith("http://127.0.0.1:")
    assert "productId" not in kept
    assert item["portMappings"][0] == {"port": 8080, "type": "http"}
    assert "createdAt" not in item


async def test_storage_creation_answers_a_bare_id_or_an_object(sim: Simulated) -> None:
    wanted = {"clusterId": "us-ca-6", "storageName": "data", "storageSize": 10}
    _, bare = await sim.ask("/networkstorage/create", wanted)
    sim.set(storage_create_answer="object", auth_save_answer="no_content")
    _, whole = await sim.ask("/networkstorage/create", wanted)
    saved = await sim.ask("/repository/auth/save", {"name": "ghcr.io", "username": "u", "password": "p"})

    assert isinstance(bare, str)
    assert whole["storageName"] == "data"
    assert saved == (204, None)


@pytest.mark.parametrize("base", [0, 1])
async def test_storages_are_listed_by_page(sim: Simulated, base: int) -> None:
    sim.set(storage_page_base=base)

    async def listed(number: int) -> list[str]:
        _, body = await sim.ask("/networkstorages/list", pageNo=number, pageSize=1)
        assert body["total"] == 3
        return [item["storageId"] for item in body["data"]]

    assert [await listed(base + number) for number in range(4)] == [
        ["ns-datasets"],
        ["ns-checkpoints"],
        ["ns-models"],
        [],
    ]


async def test_what_was_ordered_is_shown(sim: Simulated) -> None:
    ordered: dict[str, Any] = {
        "envs": [{"key": "MODE", "value": "prod"}, {"key": "EMPTY", "value": ""}],
        "command": "--port 8080",
        "entrypoint": "/bin/serve",
    }
    mounts = [{"Id": "ns-datasets", "mountPoint": "/data"}]

    instance = await shown(sim, await sim.create(networkStorages=mounts, **ordered))

    assert {field: instance[field] for field in ordered} == ordered
    assert instance["volumeMounts"] == [{"type": "network", "size": 500, "id": "ns-datasets", "mountPath": "/data"}]


async def test_a_storage_of_another_cluster_is_refused_in_the_providers_shape(sim: Simulated) -> None:
    mounts = [{"Id": "ns-checkpoints", "mountPoint": "/data"}]

    with pytest.raises(AssertionError, match="NETWORK_STORAGE_UNAVAILABLE"):
        await sim.create(networkStorages=mounts)


async def test_a_first_page_may_be_page_one(sim: Simulated) -> None:
    made = [await sim.create() for _ in range(3)]
    sim.set(page_base=1, page_size_cap=2, list_order="oldest")

    pages = [(await sim.ask("/gpu/instances", pageSize=100, pageNum=number))[1] for number in (0, 1, 2, 3)]

    assert [[item["id"] for item in page["instances"]] for page in pages] == [made[:2], made[:2], made[2:], []]
    assert {page["total"] for page in pages} == {3}


async def test_removed_instances_may_stay_listed(sim: Simulated) -> None:
    instance_id = await sim.create()
    sim.set(removed_stay_listed=True)
    await sim.ask("/gpu/instance/delete", {"instanceId": instance_id})
    sim.advance(100)

    (item,) = (await sim.ask("/gpu/instances"))[1]["instances"]

    assert item["status"] == "removed"
    assert (await sim.ask("/gpu/instance", instanceId=instance_id))[0] == 400


@pytest.mark.parametrize(("status", "reason"), [(401, "UNAUTHORIZED"), (403, "INVALID_API_KEY")])
async def test_a_missing_key_is_refused_as_set(sim: Simulated, status: int, reason: str) -> None:
    sim.set(bad_key_status=status)
    url = f"{sim.base_url}/v1/clusters"

    async with ClientSession() as session, session.get(url) as response:
        body = await response.json()

    assert (response.status, body["reason"]) == (status, reason)


async def test_the_front_refuses_urllib_with_a_page_that_is_not_json(sim: Simulated) -> None:
    headers = {"Authorization": "Bearer k", "User-Agent": "Python-urllib/3.11"}

    async with ClientSession(headers=headers) as session, session.get(f"{sim.base_url}/v1/clusters") as response:
        text = await response.text()

    assert (response.status, response.content_type) == (403, "text/html")
    assert "error code: 1010" in text


@pytest.mark.parametrize(("meaning", "after"), [("deadline", 105), ("notice", 5)])
async def test_the_reclaim_time_is_zero_until_the_notice_and_means_what_is_set(meaning: str, after: int) -> None:
    async with start_simulator(spot_life_seconds=5, spot_notice_seconds=100, spot_reclaim_time=meaning) as sim:
        instance_id = await sim.create(billingMode="spot")
        up = sim.advance(5)
        before = await shown(sim, instance_id)
        sim.advance(5)
        reported = await shown(sim, instance_id)

    assert (before["spotStatus"], before["spotReclaimTime"]) == ("running", "0")
    assert (reported["spotStatus"], reported["spotReclaimTime"]) == ("notified", str(int(up + after)))


async def test_upgrade_clears_what_is_omitted(sim: Simulated) -> None:
    instance_id = await sim.create(envs=[{"key": "A", "value": "1"}], command="run")
    sim.advance(10)
    await sim.ask("/gpu/instance/upgrade", {"instanceId": instance_id, "imageUrl": "docker.io/acme/app:2"})

    instance = await shown(sim, instance_id)

    assert (instance["status"], instance["imageUrl"]) == ("toReset", "docker.io/acme/app:2")
    assert (instance["envs"], instance["command"]) == ([], "")
    sim.advance(10)
    assert (await shown(sim, instance_id))["status"] == "running"


async def test_automatic_renewal_and_migration_are_checked_and_accepted(sim: Simulated) -> None:
    instance_id = await sim.create()

    renewal = {"instanceIds": [instance_id], "autoRenew": True, "autoRenewMonth": 1}
    migration = {"instanceId": instance_id, "autoMigrateOpen": True, "autoMigrateSystemDisk": False}
    assert (await sim.ask("/gpu/instance/setAutoRenew", renewal))[0] == 200
    assert (await sim.ask("/gpu/instance/setAutoRenew", renewal | {"instanceIds": []}))[0] == 400
    assert (await sim.ask("/gpu/instance/setAutoMigrate", migration))[0] == 200
    assert (await sim.ask("/gpu/instance/setAutoMigrate", migration | {"autoMigrateOpen": "yes"}))[0] == 400


async def test_networks_are_made_joined_and_deleted(sim: Simulated) -> None:
    made = (await sim.ask("/network/create", {"clusterId": "us-ca-6", "name": "lan"}))[1]["network"]
    instance_id = await sim.create(networkId=made["Id"])
    await sim.ask("/network/update", {"networkId": made["Id"], "name": "wan"})

    assert (await sim.ask("/network", networkId=made["Id"]))[1]["network"]["Addresses"][0]["Id"] == instance_id
    assert (await sim.ask("/networks"))[1]["network"][0]["name"] == "wan"
    assert (await sim.ask("/network/delete", {"networkId": made["Id"]}))[1]["reason"] == "NETWORK_IN_USE"


async def test_jobs_end_by_themselves_or_are_broken(sim: Simulated) -> None:
    instance_id = await sim.create()
    sim.advance(10)
    ids = [
        (await sim.ask("/job/save/image", {"instanceId": instance_id, "image": "docker.io/acme/x:1"}))[1]["jobId"]
        for _ in range(2)
    ]
    assert [job["id"] for job in (await shown(sim, instance_id))["jobs"]] == ids
    await sim.ask("/job/break", {"jobId": ids[0]})
    sim.advance(2)

    _, body = await sim.ask("/jobs", type="saveImage")

    assert {job["Id"]: job["state"]["state"] for job in body["jobs"]} == {ids[0]: "break", ids[1]: "success"}
    assert (await shown(sim, instance_id))["jobs"] == []


async def test_balance_and_metrics_are_under_the_other_base(sim: Simulated) -> None:
    sim.set(balance_usd=10, load=42)
    instance_id = await sim.create()
    sim.advance(2 + 3600)
    headers = {"Authorization": "Bearer k"}

    async with ClientSession(sim.root_url, headers=headers) as session:
        async with session.get("/openapi/v1/billing/balance/detail") as response:
            balance = await response.json()
        async with session.get("/openapi/v1/metrics/gpu/instance", params={"instanceId": instance_id}) as response:
            metrics = await response.json()

    assert balance["availableBalance"] == "96500"
    assert metrics["gpuUtilization"]["gpuIds"][0]["items"][0]["value"] == pytest.approx(42.0)


async def test_the_controls_report_and_change_everything(sim: Simulated) -> None:
    async with ClientSession(sim.root_url) as session:
        await sim.create("a")
        async with session.post("/_sim/advance", json={"seconds": 10}) as response:
            assert (await response.json())["now"] == sim.now()
        async with session.post("/_sim/fault", json={"fault": "refuse", "on": "create"}) as response:
            assert await response.json() == {"rules": 1, "struck": 0}
        async with session.get("/_sim/fault") as response:
            assert (await response.json())["faults"][0]["fault"] == "refuse"
        async with session.delete("/_sim/fault") as response:
            assert await response.json() == {"rules": 0}
        async with session.get("/_sim/ledger") as response:
            (bill,) = (await response.json())["instances"]
        async with session.get("/_sim/calls") as response:
            calls = await response.json()
        async with session.get("/_sim/state") as response:
            state = await response.json()
        async with session.post("/_sim/reset") as response:
            assert response.status == 200

    assert (bill["name"], bill["seconds"], bill["to"]) == ("a", 8, None)
    assert calls["endpoints"]["create"]["outcomes"] == {"200": 1}
    assert (state["by_status"], state["billed"]) == ({"running": 1}, 1)
    assert sim.instances() == []


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/_sim/settings", {"page_base": 3}, "page_base cannot be 3; accepted: whole number 0 to 1"),
        ("/_sim/settings", {"no_such": 3}, "no setting is called 'no_such'; there are: act_answer"),
        ("/_sim/fault", {"fault": "explode"}, "no fault is called 'explode'; there are: refuse"),
        ("/_sim/stock", {"productId": "4090.16c62g", "clusterId": "mars", "gpus": 1}, "not a cluster of that product"),
        ("/_sim/stock", {"productId": "4090.16c62g", "clusterId": "us-ca-6", "gpus": -1}, "whole number >= 0"),
        ("/_sim/template", {}, "a template needs an Id"),
        ("/_sim/load", {"gpu": 101}, "gpu cannot be 101; accepted: 0 to 100, a list of those"),
        ("/_sim/load", {"gpus": 1}, "a load has no gpus; there are: gpu, gpuMemory"),
        ("/_sim/load", {"gpu": 1, "name": "("}, "accepted: a regular expression"),
    ],
)
async def test_a_mistake_in_a_control_call_is_explained(
    sim: Simulated, path: str, body: dict[str, object], words: str
) -> None:
    async with ClientSession(sim.root_url) as session, session.post(path, json=body) as response:
        content = await response.json()

    assert response.status == 400
    assert words in content["error"]


async def test_a_reset_world_repeats_no_id(sim: Simulated) -> None:
    before = await sim.create()
    sim.simulator.reset()

    assert await sim.create() != before
    assert len(sim.instances()) == 1


async def test_the_controls_are_not_for_other_sites_that_point_here(sim: Simulated) -> None:
    headers = {"Host": "evil.example"}

    async with ClientSession(sim.root_url, headers=headers) as session, session.post("/_sim/reset") as response:
        assert response.status == 403


async def test_the_controls_are_not_for_pages_of_another_origin(sim: Simulated) -> None:
    foreign, own = {"Origin": "https://evil.example"}, {"Origin": sim.root_url}

    async with ClientSession(sim.root_url) as session:
        async with session.post("/_sim/reset", headers=foreign) as response:
            assert response.status == 403
        async with session.post("/_sim/reset", headers=own) as response:
            assert response.status == 200


async def test_the_controls_read_json_only(sim: Simulated) -> None:
    """A page of another origin can send text without asking first."""
    async with ClientSession(sim.root_url) as session:
        async with session.post("/_sim/advance", data='{"seconds": 10}') as response:
            assert response.status == 415
        async with session.post("/_sim/advance", json={"seconds": 0}) as response:
            assert response.status == 200


async def test_a_bad_ledger_pattern_is_explained(sim: Simulated) -> None:
    async with ClientSession(sim.root_url) as session, session.get("/_sim/ledger?pattern=x") as response:
        assert (response.status, "exactly one group" in await response.text()) == (400, True)
