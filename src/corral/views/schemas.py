"""The shapes of answers about instances and operations."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from corral.domain.health.checks import OverallHealth
from corral.domain.operation import OperationKind, OperationStatus
from corral.domain.placement.catalog import BillingMode, PortKind
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
)
from corral.views.leases.lease import LeaseDetails

TEMPLATE_ID = "Null when the request gave an image only, or Corral did not create it; then `image` is null, too."
Time = Annotated[str, Meta(description="ISO 8601, UTC, with milliseconds.")]
Price = Annotated[float, Meta(description="USD per hour for the whole instance.")]
Labels = Annotated[dict[str, str], Meta(description="Keys and values that users sort instances by.")]
Phases = Annotated[dict[str, str], Meta(description="When each step was reached; those ahead are left out.")]


class ErrorDetails(msgspec.Struct, rename="camel"):
    """Why it failed."""

    code: Annotated[str, Meta(description="For programs; stable.")]
    message: Annotated[str, Meta(description="For people.")]
    next_step: Annotated[str, Meta(description="What can be done about it, for people.")]


class PortMapping(msgspec.Struct):
    """Where one port can be reached."""

    port: int
    endpoint: Annotated[str | None, Meta(description="Null until the provider says it.")]
    type: PortKind


class ConnectionDetails(msgspec.Struct, rename="camel"):
    """Ways for a person to get in; null where there is none."""

    ssh: Annotated[str | None, Meta(description="The command to type.")] = None
    jupyter: Annotated[str | None, Meta(description="Address of the notebook.")] = None
    web_terminal: Annotated[str | None, Meta(description="Address of the terminal in the browser.")] = None


class SpotDetails(msgspec.Struct, rename="camel"):
    """The state of a spot machine."""

    status: Annotated[
        str, Meta(description="The provider's word: running, notified, reclaiming or terminated, as a rule.")
    ]
    reclaim_at: Annotated[str | None, Meta(description="When the machine is taken back, as the provider says.")]
    noticed_at: Annotated[str | None, Meta(description="When Corral first saw the notice.")]


class CheckError(msgspec.Struct):
    """What a check ran into."""

    category: str
    message: str
    retryable: Annotated[bool, Meta(description="Whether waiting may help.")]


class EndpointCheck(msgspec.Struct, rename="camel"):
    """The last check of one endpoint."""

    port: int
    type: PortKind
    endpoint: str | None
    status: Annotated[str, Meta(description="healthy or unhealthy.")]
    response_time: Annotated[int, Meta(description="Milliseconds.")]
    error: CheckError | None
    last_checked: Time


class HealthCheck(msgspec.Struct, rename="camel"):
    """What the health checks saw."""

    overall_status: OverallHealth
    endpoints: list[EndpointCheck]
    checks: Annotated[int, Meta(description="How many there were.")]
    retryable: Annotated[bool, Meta(description="Whether every present error may go away by waiting.")]
    first_checked: Time
    last_checked: Time


class OperationSummary(msgspec.Struct, rename="camel"):
    """What was last asked of an instance."""

    operation_id: str
    kind: OperationKind
    status: OperationStatus
    phases: Phases


class OperationDetails(OperationSummary, rename="camel"):
    """Something that was asked of an instance."""

    instance_id: str
    created_at: Time
    error: ErrorDetails | None


class OperationList(msgspec.Struct):
    """Operations, newest first."""

    operations: list[OperationDetails]


class TriedOffer(msgspec.Struct, rename="camel"):
    """An offer that was considered and not taken."""

    region: str
    product_id: str | None
    price: Annotated[float | None, Meta(description="USD per hour for the whole instance, where known.")]
    reason: str
    billing_mode: BillingMode | None = None


class PlacementDetails(msgspec.Struct, rename="camel"):
    """Where it runs, or is to run, and what was tried before."""

    region: str | None
    product_id: str | None
    price: float | None
    tried: list[TriedOffer]


DataKeptUntil = Annotated[
    str | None,
    Meta(
        description="When the provider purges the data of a stopped machine; null if it is not stopped, or not known."
    ),
]


class InstanceCost(msgspec.Struct, rename="camel"):
    """What an instance cost so far, in USD, disk included."""

    so_far: Annotated[float, Meta(description="The middle of the bounds of every time that is not known exactly.")]
    low: Annotated[float, Meta(description="It cost this at least.")]
    high: Annotated[float, Meta(description="It cost this at most.")]
    per_hour: Annotated[float, Meta(description="What it costs an hour now; of a stopped one, its disk.")]


class InstanceDetails(msgspec.Struct, rename="camel"):
    """One instance."""

    id: Annotated[str, Meta(description="Corral's id.")]
    name: str
    status: Annotated[
        str,
        Meta(
            description="creating, starting, running, health_checking, ready, stopping, exited, restarting, migrating, "
            "deleting, terminated or failed."
        ),
    ]
    gpu_num: int
    rootfs_size: Annotated[int, Meta(description="GB.")]
    region: Annotated[str, Meta(description="Where it is, or is to be.")]
    product_id: str | None
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
    billing_mode: Annotated[BillingMode | None, Meta(description="Null when the provider has another word for it.")]
    price: Annotated[float | None, Meta(description="USD per hour for the whole instance.")]
    billed: Annotated[
        bool,
        Meta(
            description="Whether it costs that price now: from when the provider pulls its image until the provider "
            "says that it is stopped or gone; so also while it is being deleted, and when it failed and still runs."
        ),
    ]
    port_mappings: list[PortMapping]
    connection_details: ConnectionDetails
    novita_instance_id: Annotated[str | None, Meta(description="The provider's id, once there is one.")]
    created_at: Time
    created_by: Annotated[
        str | None,
        Meta(description="Name of the API key that created or adopted it, or `local`; null when that is not known."),
    ]
    labels: Labels
    protected: Annotated[bool, Meta(description="Whether a budget that is spent leaves it running.")]
    started_at: str | None
    ready_at: Annotated[str | None, Meta(description="When it first became ready after a create or start.")]
    stopped_at: str | None
    data_kept_until: DataKeptUntil
    estimated_ready_time: Annotated[str | None, Meta(description="While it is coming up.")]
    last_seen_at: Annotated[str | None, Meta(description="When the provider last listed it.")]
    stale: Annotated[bool, Meta(description="The provider could not be asked for two poll intervals.")]
    error: ErrorDetails | None
    reason: Annotated[
        str | None,
        Meta(
            description="What it waits for: to be created, for the outcome of a create call that is unknown, or for a "
            "stop or delete to be confirmed."
        ),
    ]
    lease: Annotated[LeaseDetails | None, Meta(description="How long it may live; null: nothing ends it.")]
    spot: Annotated[SpotDetails | None, Meta(description="Of a spot instance, once the provider reports it.")]
    health_check: HealthCheck | None
    operation: OperationSummary | None
    allowed_actions: Annotated[
        list[OperationKind],
        Meta(description="The commands that would change it now: of start, stop, restart and delete."),
    ]
    placement: PlacementDetails
    cost: Annotated[
        InstanceCost | None, Meta(description="Only where one instance is asked for: null in lists and webhooks.")
    ]


class InstanceList(msgspec.Struct):
    """One page of instances, newest first."""

    instances: list[InstanceDetails]
    total: Annotated[int, Meta(description="How many match in all.")]
    limit: int
    offset: int


class InstanceCreated(msgspec.Struct, rename="camel"):
    """A create that was recorded."""

    instance_id: str
    status: str
    message: str
    estimated_ready_time: Time
    operation_id: str
    region: Annotated[str, Meta(description="The best region now; another is taken if that runs out.")]
    product_id: str
    price: Price


class InstanceAction(msgspec.Struct, rename="camel"):
    """Something that will be done to an instance."""

    instance_id: str
    novita_instance_id: str | None
    status: str
    message: str
    operation_id: str
    estimated_ready_time: str | UnsetType = UNSET
