"""The record of one instance."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NewType

from corral.domain.budgets.reservation import Reservation
from corral.domain.container import ContainerSpec
from corral.domain.costs.meter import Meter
from corral.domain.errors import Failure
from corral.domain.health.checks import HealthCheckSpec, HealthReport
from corral.domain.leases.lease import LeaseState
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.observation.kept_data import DataNotice
from corral.domain.observation.sighting import Endpoint, Sighting
from corral.domain.observation.spot import Spot
from corral.domain.placement.catalog import BillingMode

InstanceId = NewType("InstanceId", str)
OperationId = NewType("OperationId", str)
ProviderId = NewType("ProviderId", str)
Labels = tuple[tuple[str, str], ...]
"""Keys with their values, in the order of the keys; each key once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """What the user requested; it never changes."""

    name: str
    product_name: str
    template_id: str
    """Empty if the request gives an image of its own, or the instance was adopted: the provider does not show it."""
    container: ContainerSpec | None = None
    """What it says about the container; None: nothing, so all of it is the template's."""
    secret_names: tuple[str, ...] = ()
    """The variables whose values are stored apart, encrypted, until it is created."""
    gpu_num: int = 1
    rootfs_gb: int = 60
    regions: tuple[str, ...]
    """In the order to try: the requested one first."""
    billing_mode: BillingMode = BillingMode.SPOT
    spot_fallback: bool = False
    max_micro_usd_per_gpu: int | None = None
    wait_for_capacity_seconds: int | None = None
    """How long to wait while every offer is short; 0: no wait; None: until the deadline of the create."""
    health: HealthCheckSpec = field(default_factory=HealthCheckSpec)
    webhook_url: str | None = field(default=None, repr=False)
    """May carry a token in its path, so it is kept out of `repr`."""

    @property
    def is_adopted(self) -> bool:
        """Whether it describes a machine that was found at the provider, and not one to be created."""
        return not self.template_id and (self.container is None or self.container.image is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where it is meant to go and, once a create call was recorded, where that went."""

    region: str
    cluster_id: str
    product_id: str
    billing_mode: BillingMode
    micro_usd: int
    """Per hour, for the whole instance; 0 when it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedCandidate:
    """An offer that was considered and not taken, and why."""

    region: str
    product_id: str | None
    micro_usd_per_gpu: int | None
    reason: str
    billing_mode: BillingMode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginMethods:
    """How a person can log in; passwords are not stored."""

    ssh: str | None = None
    jupyter: str | None = None
    web_terminal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAttempt:
    """The last create call that was recorded."""

    number: int = 0
    """How many create calls were recorded; each has a provider-side name of its own."""
    sent_at: datetime | None = None
    """Set with the intent, before the call; None once the outcome of the call is known."""
    ended: bool = False
    """Whether the worker that made the call recorded that the call is over. Otherwise the worker died, or is paused or
    cut off, and the call may be under way for another `Policy.longest_create`."""
    doubted_at: datetime | None = None
    """When the call ended without an outcome or, if its worker did not record that, when a reconcile first found it."""
    listings_without: int = 0
    """Complete listings, begun after the settle time was over, that did not show its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWait:
    """
    What kept the last try from creating the instance and is expected to pass.

    No capacity, no money, a rejected key, or a provider that could not be asked or did not carry out the call.
    """

    code: str
    message: str
    tries: int = 0
    """Tries that ended so, except those that the provider did not carry out; the pause before the next grows with
    them."""
    retry_at: datetime | None = None
    """When offers are tried again; None: when the job that made the last try runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the provider last said about the instance, and when it did not show it."""

    sighting: Sighting | None = None
    """ABSENT only after that was confirmed. None: never seen."""
    provider_status: str | None = None
    """The provider's own status text."""
    sighted_at: datetime | None = None
    booted_at: datetime | None = None
    """When it last came up, by the provider's clock: only good to be compared with what the provider says later."""
    failure: str | None = None
    """The provider's `statusError`."""
    spot: Spot | None = None
    """What the provider last said of its spot offer; None: it is none, or nothing was said."""
    data_kept_until: datetime | None = None
    """When the provider purges the data of the stopped machine; None: it is not stopped, or nothing was said."""
    unlisted_since: datetime | None = None
    """When a complete listing first lacked it; None while it is listed."""
    absence_checks: int = 0
    """How many direct lookups since then did not find it."""
    absence_checked_at: datetime | None = None
    lookup_failed_since: datetime | None = None
    """When a lookup by its id first did not find it, after a delete was sent; None if it was seen since."""
    found_unlisted_since: datetime | None = None
    """When a lookup by its id first found it although a complete listing lacked it; None once a listing shows it."""
    found_unlisted_at: datetime | None = None
    """When a lookup last did."""
    meter: Meter | None = None
    """Whether the machine is billed; None without a machine, or if an earlier release wrote the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAction:
    """The call to start, restart, stop or delete the instance that its present operation needs."""

    action: Action | None = None
    """START or RESTART: what the operation requested and no observation has shown to have happened."""
    attempts: int = 0
    """How many calls were sent."""
    sent_at: datetime | None = None
    """When the last call was sent."""
    ended_at: datetime | None = None
    """When the last call to stop or delete ended; None: under way, or its worker died."""
    accepted: bool = False
    """Whether the provider accepted the last call to stop or delete; False also if it is not known."""
    sent_on: Sighting | None = None
    """What the provider had last said of the instance when that call was sent."""
    refused: Failure | None = None
    """Why the provider did not carry out the last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance as it was last recorded."""

    id: InstanceId
    request: CreateRequest
    goal: Goal
    phase: Phase
    generation: int = 0
    """+1 on every write; a write names the generation it read."""
    operation_id: OperationId
    created_at: datetime
    created_by: str | None = None
    """The name of the key that created or adopted it, or `local`. None: recorded by an earlier release or a rebuild."""
    labels: Labels = ()
    """What users sort it by; changed by a command of their own, in every phase."""
    lease: LeaseState | None = None
    """How long it may run; None: as long as nothing else stops it."""
    protected: bool = False
    """Whether budgets leave it running when they are spent; changed by a command of its own, as labels are."""
    reservation: Reservation | None = None
    """What was set aside for it with its create or last start; None once it has cost as much, or cannot cost more."""
    phase_since: datetime
    deadline_at: datetime | None
    """Until when the present operation must have brought it up."""

    create: CreateAttempt = CreateAttempt()
    waiting: CreateWait | None = None
    given_up: tuple[int, ...] = ()
    """Attempts that were in doubt until the settle time was over; a machine of one may still appear."""
    tried: tuple[RejectedCandidate, ...] = ()
    placement: Placement | None = None
    provider_id: ProviderId | None = None
    provider_attempt: int | None = None
    """The attempt that made the machine `provider_id`; None: the last one."""

    observation: Observation = Observation()
    announced_spot: Spot | None = None
    """The reclaim notice of which the last event was."""
    announced_data: DataNotice | None = None
    """The last warning that the data of the stopped machine will be purged; None again once it runs."""
    pending: PendingAction = PendingAction()
    delete_accepted_at: datetime | None = None
    """When the provider first accepted a delete of it; from then on "not found" means that it is gone."""

    checks: HealthCheckSpec | None = None
    """The health checks of its operation; None: those of its request."""
    webhook_url: str | None = field(default=None, repr=False)
    """The webhook of its operation; None: that of its request."""

    endpoints: tuple[Endpoint, ...] = ()
    access: LoginMethods | None = None
    health: HealthReport | None = None
    failure: Failure | None = None
    started_at: datetime | None = None
    ready_at: datetime | None = None
    stopped_at: datetime | None = None

    @property
    def health_spec(self) -> HealthCheckSpec:
        """The health checks that apply."""
        return self.checks or self.request.health

    @property
    def webhook_target(self) -> str | None:
        """The URL that its events are sent to, if it has one of its own."""
        return self.webhook_url or self.request.webhook_url

    @property
    def create_in_doubt(self) -> bool:
        """Whether the outcome of the last create call is not known."""
        return self.provider_id is None and self.create.sent_at is not None
