"""An independent client, `novita-sdk` from PyPI, unchanged, against the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

import pytest
from novita import AsyncNovitaClient, NovitaClient
from novita.exceptions import AuthenticationError, BadRequestError, NotFoundError, RateLimitError
from novita.generated.models import (
    CreateInstanceRequest,
    CreateNetworkStorageRequest,
    CreateTemplateRequest,
    EditInstanceRequest,
    SaveImageRequest,
    UpdateNetworkStorageRequest,
)

from novitasim.testing import PLAIN, Simulated, start_simulator

T = TypeVar("T")


@pytest.fixture
async def sim() -> AsyncGenerator[Simulated]:
    # The SDK wants an object where the documentation shows a bare id.
    async with start_simulator(storage_create_answer="object") as simulated:
        yield simulated


@pytest.fixture
async def client(sim: Simulated) -> AsyncGenerator[AsyncNovitaClient]:
    async with AsyncNovitaClient("any-key", base_url=sim.root_url) as novita:
        yield novita


def order(**fields: object) -> CreateInstanceRequest:
    return CreateInstanceRequest.model_validate(PLAIN | {"name": "worker-a1"} | fields)


async def blocking(sim: Simulated, use: Callable[[NovitaClient], T], key: str = "any-key") -> T:
    """The synchronous client, in a thread, because the simulator lives in this loop."""

    def call() -> T:
        with NovitaClient(key, base_url=sim.root_url) as novita:
            return use(novita)

    return await asyncio.to_thread(call)


async def test_clusters_and_products_pass_the_strict_models(sim: Simulated, client: AsyncNovitaClient) -> None:
    clusters = {cluster.id: cluster.name for cluster in await client.gpu.clusters.list()}
    products = {product.id: product for product in await client.gpu.products.list()}
    cpus = await client.gpu.products.list_cpu()

    assert clusters["cn-hongkong-1"] == "CN-HK-01 (Hong Kong)"
    assert products["4090.16c62g"].price == pytest.approx(0.35)
    assert products["4090.16c62g"].spot_price == pytest.approx(0.18)
    assert cpus[0].price == pytest.approx(0.04)
    assert [item.id for item in await blocking(sim, lambda novita: novita.gpu.clusters.list())] == list(clusters)


async def test_products_can_be_narrowed_to_a_cluster_and_to_spot(client: AsyncNovitaClient) -> None:
    found = await client.gpu.products.list(cluster_id="cn-hongkong-1", product_name="4090", billing_method="spot")

    assert [product.id for product in found] == ["4090.16c62g.os"]


async def test_an_instance_lives_from_create_to_not_found(sim: Simulated, client: AsyncNovitaClient) -> None:
    instances = client.gpu.instances
    made = await instances.create(order())
    assert (await instances.get(made.id)).status == "toCreate"

    sim.advance(5)
    shown = await instances.get(made.id)
    assert (shown.status, shown.gpu_num, shown.cluster_id) == ("running", "1", "us-ca-6")
    assert shown.port_mappings is not None
    assert [mapping.port for mapping in shown.port_mappings if mapping.endpoint] == [8080, 22]

    await instances.stop(made.id)
    sim.advance(2)
    assert (await instances.get(made.id)).status == "exited"
    await instances.start(made.id)
    sim.advance(2)
    await instances.restart(made.id)
    assert (await instances.get(made.id)).status == "toRestart"
    sim.advance(2)
    await instances.delete(made.id)
    assert (await instances.list())[0].status == "toRemove"
    sim.advance(10)

    assert await instances.list() == []
    with pytest.raises(BadRequestError, match="not found"):
        await instances.get(made.id)


async def test_the_synchronous_client_lives_the_same_life(sim: Simulated) -> None:
    made = await blocking(sim, lambda novita: novita.gpu.instances.create(order(billingMode="spot")))
    sim.advance(5)
    for act in ("stop", "delete"):
        await blocking(sim, lambda novita, act=act: getattr(novita.gpu.instances, act)(made.id))  # type: ignore[misc]
        sim.advance(2)

    listed = await blocking(sim, lambda novita: novita.gpu.instances.list(page_size=10, page_num=0))

    assert listed == []


async def test_lists_are_paged_and_filtered(client: AsyncNovitaClient) -> None:
    made = [(await client.gpu.instances.create(order(name=f"web-{number}"))).id for number in range(5)]

    pages = [await client.gpu.instances.list(page_size=2, page_num=number) for number in range(3)]
    found = await client.gpu.instances.list(page_size=10, page_num=0, name="b-3", status="toCreate")

    assert [item.id for page in pages for item in page] == made[::-1]
    assert [item.id for item in found] == [made[3]]


async def test_spot_fields_pass_the_models(sim: Simulated, client: AsyncNovitaClient) -> None:
    made = await client.gpu.instances.create(order(billingMode="spot"))
    sim.advance(5)
    sim.fault("spot_notice", seconds=60)

    (shown,) = await client.gpu.instances.list()

    assert (shown.id, shown.spot_status, shown.billing_mode) == (made.id, "notified", "spot")
    assert shown.spot_reclaim_time == str(int(sim.now() + 60))


async def test_edit_migrate_renew_and_save_image_are_understood(sim: Simulated, client: AsyncNovitaClient) -> None:
    made = await client.gpu.instances.create(order())
    sim.advance(5)
    edit = {"instanceId": made.id, "ports": [{"port": 9000, "type": "http"}], "expandRootDisk": 5}
    await client.gpu.instances.edit(EditInstanceRequest.model_validate(edit))
    job_id = await client.gpu.instances.save_image(
        SaveImageRequest.model_validate({"instanceId": made.id, "image": "docker.io/acme/saved:1"})
    )
    await client.gpu.instances.migrate(made.id)
    await client.gpu.instances.convert_to_monthly(made.id, 1)
    await client.gpu.instances.renew(made.id, 1)

    shown = await client.gpu.instances.get(made.id)
    jobs = await client.gpu.jobs.list()
    await client.gpu.jobs.break_job(job_id)

    assert (shown.status, shown.rootfs_size, shown.billing_mode) == ("migrating", 65, "monthly")
    assert shown.port_mappings is not None
    assert [mapping.port for mapping in shown.port_mappings] == [9000]
    assert {(job.id == job_id, str(job.type)) for job in jobs} == {(True, "saveImage"), (False, "instanceMigrate")}


async def test_templates_are_listed_made_and_deleted(client: AsyncNovitaClient) -> None:
    payload = {
        "name": "mine",
        "readme": "",
        "type": "instance",
        "channel": "private",
        "image": "docker.io/acme/app:1",
        "startCommand": "",
        "rootfsSize": 60,
        "ports": [{"type": "http", "ports": [8080, 8888]}, {"type": "tcp", "ports": [22]}],
        "volumes": [],
        "envs": [{"key": "MODE", "value": "prod"}],
    }
    made = await client.gpu.templates.create(CreateTemplateRequest.model_validate({"template": payload}))

    shown = await client.gpu.templates.get(made.template_id)
    listed = await client.gpu.templates.list()
    await client.gpu.templates.delete(made.template_id)

    assert shown.ports is not None
    assert [(str(group.type), group.ports) for group in shown.ports] == [("http", [8080, 8888]), ("tcp", [22])]
    assert {"107672", "204511", made.template_id} <= {template.id for template in listed}
    with pytest.raises(BadRequestError, match="template not found"):
        await client.gpu.templates.get(made.template_id)


async def test_registry_credentials_are_kept_and_dropped(client: AsyncNovitaClient) -> None:
    await client.gpu.registries.create("ghcr.io", "acme", "hush")
    kept = {auth.name: auth for auth in await client.gpu.registries.list()}

    await client.gpu.registries.delete(kept["ghcr.io"].id)

    assert kept["registry.example.com"].password.get_secret_value() == "s3cret-s3cret"
    assert "ghcr.io" not in {auth.name for auth in await client.gpu.registries.list()}


async def test_storages_are_made_grown_mounted_and_deleted(sim: Simulated, client: AsyncNovitaClient) -> None:
    wanted = {"clusterId": "us-ca-6", "storageName": "data", "storageSize": 10}
    made = await client.gpu.storages.create(CreateNetworkStorageRequest.model_validate(wanted))
    grown = {"storageId": made.storage_id, "storageName": "data", "storageSize": 20}
    await client.gpu.storages.update(UpdateNetworkStorageRequest.model_validate(grown))
    mounted = await client.gpu.instances.create(order(networkStorages=[{"Id": made.storage_id, "mountPoint": "/data"}]))

    (listed,) = await client.gpu.instances.list()
    assert listed.volume_mounts is not None
    assert (listed.volume_mounts[0].size, listed.volume_mounts[0].mount_path) == ("20", "/data")
    with pytest.raises(BadRequestError, match="in use"):
        await client.gpu.storages.delete(made.storage_id or "")
    await client.gpu.instances.delete(mounted.id)
    sim.advance(5)
    await client.gpu.storages.delete(made.storage_id or "")
    assert "data" not in {storage.storage_name for storage in await client.gpu.storages.list()}


async def test_refusals_become_the_sdks_own_errors(sim: Simulated, client: AsyncNovitaClient) -> None:
    with pytest.raises(BadRequestError, match="insufficient resource") as refused:
        await client.gpu.instances.create(order(clusterId="cn-hongkong-1"))
    assert refused.value.details["reason"] == "INSUFFICIENT_RESOURCE"

    sim.set(not_found_status=404)
    with pytest.raises(NotFoundError):
        await client.gpu.instances.get("nothing")
    sim.fault("throttle")
    with pytest.raises(RateLimitError):
        await client.gpu.clusters.list()


async def test_a_wrong_key_is_an_authentication_error() -> None:
    async with start_simulator(keys=frozenset({"right"})) as sim:
        with pytest.raises(AuthenticationError):
            await blocking(sim, lambda novita: novita.gpu.clusters.list(), key="wrong")

        assert await blocking(sim, lambda novita: novita.gpu.clusters.list(), key="right")
