"""A create with a container of its own: what the provider is sent, where it runs, and what may change meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.engines.engine_steps import REQUEST
from support.engines.stepped_engine import SteppedEngine, stepped_engine

from corral.domain.container import ContainerSpec, VolumeMount
from corral.domain.lifecycle.phases import Phase
from corral.domain.placement.catalog import EnvironmentVariable, PortKind, TemplatePort
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import instances
from novitasim.world.instance import Env, Mount, Order, Port

REGIONS = ("CN-HK-01", "US-CA-06", "EU-GER-01")
DATASETS = VolumeMount(id="ns-datasets", mount="/data")
"""Of the simulated account, in us-ca-6."""


def order_of(engine: SteppedEngine) -> Order:
    [machine] = engine.sim.world.instances.values()
    return machine.order


async def test_the_request_s_container_is_sent_over_the_template_s(engine: SteppedEngine) -> None:
    """Variables by name, ports instead of the template's, its tool beside them, and the volume in its region."""
    spec = ContainerSpec(
        command="python serve.py",
        env=(
            EnvironmentVariable(key="MODE", value="train"),
            EnvironmentVariable(key="JUPYTER_ENABLE_LAB", value="no"),
        ),
        ports=(TemplatePort(port=9000, kind=PortKind.HTTP),),
        volumes=(DATASETS,),
        min_cuda="12.8",
    )
    instance_id = await engine.request_create(replace(REQUEST, regions=REGIONS, container=spec))
    ready = await engine.until(instance_id, Phase.READY)
    order = order_of(engine)

    assert ready.placement is not None
    assert (ready.placement.region, order.cluster_id) == ("US-CA-06", "us-ca-6")
    assert order.image == "docker.io/pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"
    assert order.envs == (Env(key="JUPYTER_ENABLE_LAB", value="no"), Env(key="MODE", value="train"))
    assert order.ports == (Port(port=9000, type="http"),)
    assert order.tools == (("Jupyter", Port(port=8888, type="http")),)
    assert order.mounts == (Mount(id="ns-datasets", path="/data"),)
    assert (order.command, order.min_cuda) == ("python serve.py", "12.8")
    assert [(each.region, each.reason) for each in ready.tried] == [
        ("CN-HK-01", "the volumes of this request are not in CN-HK-01"),
        ("EU-GER-01", "the volumes of this request are not in EU-GER-01"),
    ]


@pytest.mark.parametrize("auth_id", ["accepted", "refused"])
async def test_an_own_image_needs_no_template_and_has_its_own_login(
    database: Database, target: DatabaseTarget, auth_id: str
) -> None:
    """The id of the request's login is sent or, if the provider refuses that, the login itself."""
    spec = ContainerSpec(
        image="registry.example.com/acme/app:1",
        image_auth_id="3f0c9d0e",
        ports=(TemplatePort(port=9000, kind=PortKind.HTTP),),
    )
    async with stepped_engine(database, target, image_auth_id=auth_id) as engine:
        instance_id = await engine.request_create(replace(REQUEST, template_id="", container=spec))
        ready = await engine.until(instance_id, Phase.READY)
        order = order_of(engine)
        async with database.connection() as connection:
            rechecked = await instances.listed_ready(connection, 10)

    assert order.image == "registry.example.com/acme/app:1"
    assert (order.image_auth_id, order.image_auth) == (
        ("3f0c9d0e", "") if auth_id == "accepted" else ("", "acme:s3cret-s3cret")
    )
    assert (order.envs, order.tools, order.command) == ((), (), "")
    assert rechecked == [ready], "it was created here, although it has no template"


async def test_a_login_is_not_sent_for_another_image(engine: SteppedEngine) -> None:
    """The template's registry login stays with the template's image."""
    spec = ContainerSpec(image="docker.io/other/app:1")
    instance_id = await engine.request_create(replace(REQUEST, template_id="204511", container=spec))
    await engine.until(instance_id, Phase.READY)
    order = order_of(engine)

    assert engine.sim.world.templates["204511"].image_auth
    assert (order.image, order.image_auth_id, order.image_auth) == ("docker.io/other/app:1", "", "")


async def test_a_volume_that_is_gone_is_waited_for_until_the_deadline(engine: SteppedEngine) -> None:
    """It existed when the request was accepted: one bad list must not fail a create. No call is sent meanwhile."""
    spec = ContainerSpec(volumes=(DATASETS,))
    order = replace(REQUEST, regions=REGIONS, container=spec)
    storage = engine.sim.world.storages.pop(DATASETS.id)
    back, never = await engine.request_create(order), await engine.request_create(order, minutes=1)
    await engine.work()
    failed = await engine.until(never, Phase.FAILED)
    waits = await engine.get(back)
    assert not engine.sim.world.instances
    engine.sim.world.storages[storage.id] = storage
    await engine.until(back, Phase.READY, seconds=10)

    assert failed.failure is not None
    assert failed.failure.code == "VOLUME_NOT_FOUND"
    assert waits.waiting is not None
    assert waits.waiting.message == "the account has no volume ns-datasets"


async def test_a_volume_that_cannot_be_mounted_does_not_keep_others_from_the_offer(engine: SteppedEngine) -> None:
    """The provider refuses it like a shortage, and the offer is not short: only this request has to wait."""
    storages = engine.sim.world.storages
    await engine.parts.catalog.volumes.all()
    storages[DATASETS.id] = replace(storages[DATASETS.id], cluster_id="eu-ger-1")
    waiting = await engine.request_create(
        replace(REQUEST, regions=("US-CA-06",), container=ContainerSpec(volumes=(DATASETS,)))
    )
    await engine.work()
    other = await engine.request_create(replace(REQUEST, regions=("US-CA-06",)))
    await engine.work()
    waits = await engine.get(waiting)

    assert (await engine.get(other)).provider_id is not None
    assert waits.waiting is not None
    assert waits.waiting.code == "RESOURCE_CONSTRAINTS"


async def test_a_template_that_outgrew_the_request_fails_it(engine: SteppedEngine) -> None:
    """The provider would refuse every offer, one call after the other."""
    spec = ContainerSpec(ports=tuple(TemplatePort(port=port, kind=PortKind.TCP) for port in range(1, 16)))
    instance_id = await engine.request_create(replace(REQUEST, container=spec))
    failed = await engine.until(instance_id, Phase.FAILED)

    assert failed.failure is not None
    assert failed.failure.code == "VALIDATION_ERROR"
    assert failed.create.number == 0
