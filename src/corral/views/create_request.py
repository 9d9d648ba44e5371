"""The request that an instance was created with, in a form that can be sent again."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from corral.domain.container import AS_TEMPLATE
from corral.domain.instance import Instance
from corral.domain.placement.catalog import BillingMode
from corral.domain.placement.pricing import usd
from corral.views.container import (
    Command,
    EntryPoint,
    Env,
    Image,
    ImageAuthId,
    MinCuda,
    Ports,
    SecretNames,
    Volumes,
    env_of,
    ports_of,
    volumes_of,
)
from corral.views.leases.lease import RequestedLease, requested_lease
from corral.views.schemas import TEMPLATE_ID


class RequestedHealthCheck(msgspec.Struct, rename="camel"):
    """The health check that was requested, completed by the settings of that time."""

    path: Annotated[str, Meta(description="Path of the GET, without its query, which may hold a token.")]
    target_port: Annotated[int | None, Meta(description="The only port that is checked; null: every port.")]
    timeout_ms: Annotated[int, Meta(description="Milliseconds one check may take.")]
    retry_attempts: Annotated[int, Meta(description="Repetitions within a round.")]
    retry_delay_ms: Annotated[int, Meta(description="Milliseconds before the first; doubles with each.")]
    max_wait_time_ms: Annotated[int, Meta(description="Milliseconds until it counts as unhealthy.")]


class CreateRequestDetails(msgspec.Struct, rename="camel"):
    """A create request: the body of `POST /api/instances`, without what may hold a token."""

    name: str
    product_name: str
    template_id: Annotated[str | None, Meta(description=TEMPLATE_ID)]
    image: Image
    image_auth_id: ImageAuthId
    command: Command
    entrypoint: EntryPoint
    env: Env
    secret_names: SecretNames
    ports: Ports
    volumes: Volumes
    min_cuda: MinCuda
    gpu_num: int
    rootfs_size: Annotated[int, Meta(description="GB.")]
    regions: Annotated[list[str], Meta(description="Every region that may be tried, in order.")]
    billing_mode: BillingMode
    spot_fallback: Annotated[bool, Meta(description="Whether on-demand is accepted when no region has spot.")]
    max_price: Annotated[float | None, Meta(description="Most USD per GPU-hour; null: any.")]
    wait_for_capacity: Annotated[int | None, Meta(description="Seconds; null: until the deadline of the create.")]
    health_check: RequestedHealthCheck
    lease: Annotated[RequestedLease | None, Meta(description="Its lease as it is now; null: none.")]
    webhook_host: Annotated[str | None, Meta(description="The host of its webhook; null without one.")]


def create_request_details(instance: Instance) -> CreateRequestDetails:
    """The request of *instance*, with its present lease, as answers show it."""
    request, state = instance.request, instance.lease
    container = request.container or AS_TEMPLATE
    health, limit = request.health, request.max_micro_usd_per_gpu
    return CreateRequestDetails(
        name=request.name,
        product_name=request.product_name,
        template_id=request.template_id or None,
        image=container.image,
        image_auth_id=container.image_auth_id,
        command=container.command,
        entrypoint=container.entrypoint,
        env=env_of(container),
        secret_names=list(request.secret_names),
        ports=ports_of(container),
        volumes=volumes_of(container),
        min_cuda=container.min_cuda,
        gpu_num=request.gpu_num,
        rootfs_size=request.rootfs_gb,
        regions=list(request.regions),
        billing_mode=request.billing_mode,
        spot_fallback=request.spot_fallback,
        max_price=None if limit is None else usd(limit),
        wait_for_capacity=request.wait_for_capacity_seconds,
        health_check=RequestedHealthCheck(
            path=health.path.partition("?")[0],
            target_port=health.target_port,
            timeout_ms=health.timeout_ms,
            retry_attempts=health.retry_attempts,
            retry_delay_ms=health.retry_delay_ms,
            max_wait_time_ms=health.max_wait_ms,
        ),
        lease=None if state is None or state.lease.is_empty else requested_lease(state.lease),
        webhook_host=None if request.webhook_url is None else urlsplit(request.webhook_url).hostname,
    )
