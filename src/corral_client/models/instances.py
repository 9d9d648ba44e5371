"""Responses about instances, typed: what they are, receipts, operations and events."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from corral_client.models.leases import Lease

GONE: Final = frozenset({"deleting", "terminated"})
"""Statuses of an instance that is being deleted or is deleted."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why it failed."""

    code: str
    message: str
    next_step: str | None = None
    """What can be done about it; None from a service of an earlier release."""


class PortMapping(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where one port can be reached; the endpoint is None until that is known."""

    port: int
    endpoint: str | None = None
    type: str


class ConnectionDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a person connects: ssh and web addresses."""

    ssh: str | None = None
    jupyter: str | None = None
    web_terminal: str | None = None


class CheckError(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a check failed."""

    category: str
    message: str
    retryable: bool = False


class EndpointCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last check of one endpoint; the response time is in milliseconds."""

    port: int
    type: str
    endpoint: str | None = None
    status: str
    response_time: int | None = None
    error: CheckError | None = None
    last_checked: datetime | None = None


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the health checks saw."""

    overall_status: str
    endpoints: list[EndpointCheck] = []
    checks: int = 0
    retryable: bool = True
    first_checked: datetime | None = None
    last_checked: datetime | None = None


class OperationSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was last asked of an instance; `phases` says when each step was reached."""

    operation_id: str
    kind: str
    status: str
    phases: dict[str, datetime] = {}


class Operation(OperationSummary, frozen=True, kw_only=True, rename="camel"):
    """Something that was asked of an instance."""

    instance_id: str
    created_at: datetime
    error: Failure | None = None


class TriedOffer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An offer that was considered and not taken."""

    region: str
    product_id: str | None = None
    price: float | None = None
    reason: str
    billing_mode: str | None = None


class Placement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where it runs, or is to run, and what was tried before. Prices are USD per hour for the whole instance."""

    region: str | None = None
    product_id: str | None = None
    price: float | None = None
    tried: list[TriedOffer] = []


class Spot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of a spot machine; `reclaim_at` is when the provider reclaims it, once there is a notice."""

    status: str
    reclaim_at: datetime | None = None
    noticed_at: datetime | None = None


class VolumeMount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Network storage, and where a machine sees it."""

    id: str
    mount: str


class InstanceCost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an instance cost so far, between *low* and *high*, and costs an hour now; USD."""

    so_far: float
    low: float
    high: float
    per_hour: float


class Instance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One instance, as it was when asked for."""

    id: str
    name: str
    status: str
    gpu_num: int
    rootfs_size: int
    region: str
    product_id: str | None = None
    product_name: str
    template_id: str | None
    image: str | None = None
    """The image that the create named; None when the template's runs."""
    image_auth_id: str | None = None
    command: str | None = None
    entrypoint: str | None = None
    env: dict[str, str] = {}
    secret_names: list[str] = []
    ports: list[str] | None = None
    """The ports that the create named, such as 8080/http; None when those of the template are open."""
    volumes: list[VolumeMount] = []
    min_cuda: str | None = None
    labels: dict[str, str] = {}
    protected: bool = False
    """Whether a budget that is spent leaves it running."""
    billing_mode: str | None
    price: float | None = None
    billed: bool | None = None
    """Whether it costs that price now; None from a service of an earlier release."""
    created_by: str | None = None
    """The API key that created or adopted it, or `local`; None when that is not known."""
    port_mappings: list[PortMapping] = []
    connection_details: ConnectionDetails = ConnectionDetails()
    novita_instance_id: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    ready_at: datetime | None = None
    stopped_at: datetime | None = None
    estimated_ready_time: datetime | None = None
    last_seen_at: datetime | None = None
    stale: bool = False
    error: Failure | None = None
    reason: str | None = None
    """What it waits for, where the service says so."""
    spot: Spot | None = None
    lease: Lease | None = None
    """What ends it, and when; None when nothing does."""
    data_kept_until: datetime | None = None
    """When the provider deletes the disk of a stopped instance; None while it runs, or when that is not known."""
    health_check: HealthCheck | None = None
    operation: OperationSummary | None = None
    allowed_actions: list[str] = []
    """The commands that would change it now: of start, stop, restart and delete."""
    placement: Placement = Placement()
    cost: InstanceCost | None = None
    """Only of an instance that was asked for by its id."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be used; also where the service calls a ready instance `running`."""
        brought_up = self.operation is not None and self.operation.status == "completed"
        return self.status == "ready" or (self.status == "running" and brought_up)

    @property
    def is_gone(self) -> bool:
        """Whether the provider has confirmed the deletion."""
        return self.status == "terminated"


class InstancePage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of instances."""

    instances: list[Instance]
    total: int


class Created(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The receipt for a new instance."""

    instance_id: str
    status: str
    message: str = ""
    estimated_ready_time: datetime
    operation_id: str
    region: str
    product_id: str
    price: float


class Action(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The receipt for something that will be done to an instance."""

    instance_id: str
    novita_instance_id: str | None = None
    status: str
    message: str = ""
    operation_id: str
    estimated_ready_time: datetime | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    One entry of the log; `elapsed_time` is in milliseconds since its operation was asked for.

    An event of a budget or of the account is not about one instance: it has no instance, status and operation.
    """

    id: str
    seq: int
    event: str
    instance_id: str | None = None
    novita_instance_id: str | None = None
    status: str | None = None
    previous_status: str | None = None
    timestamp: datetime
    elapsed_time: int | None = None
    operation_id: str | None = None
    reason: str
    error: Failure | None = None
    data: dict[str, object] = {}


class EventPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some events, oldest first."""

    events: list[Event]
    next_after: int


class OperationList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Operations, newest first."""

    operations: list[Operation]


class Progress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far an instance is, while it is waited for."""

    instance: Instance
    reason: str | None = None
    """Why it is where it is, in the words of its latest event."""
