"""Instances and operations as the API, events and webhooks show them, in the words and units of the contract."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.container import AS_TEMPLATE
from corral.domain.costs.usage import is_billed
from corral.domain.errors import Failure, failure_next_step
from corral.domain.health.checks import EndpointHealth, HealthReport
from corral.domain.instance import Instance, Placement
from corral.domain.lifecycle import creation, pending_action
from corral.domain.lifecycle.commands import allowed_actions
from corral.domain.lifecycle.data_expiry import expires_at
from corral.domain.lifecycle.phases import COMING_UP, REACHABLE, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.sighting import Endpoint, Sighting
from corral.domain.observation.spot import Spot
from corral.domain.operation import ENDED, InstanceWithOperation, Operation
from corral.domain.placement.pricing import usd
from corral.domain.timing import iso
from corral.views.container import env_of, ports_of, volumes_of
from corral.views.leases.lease import lease_details
from corral.views.schemas import (
    CheckError,
    ConnectionDetails,
    EndpointCheck,
    ErrorDetails,
    HealthCheck,
    InstanceDetails,
    OperationDetails,
    OperationSummary,
    PlacementDetails,
    PortMapping,
    SpotDetails,
    TriedOffer,
)

LISTINGS_MISSED = 2
"""One listing may fail or be late; after two, what is shown may be wrong and is marked `stale`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """The instant at which an instance is shown."""

    now: datetime
    last_listing_at: datetime | None
    """When all of the provider's instances were last listed before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """Shows instances; pure, because time and estimates are arguments."""

    ready_word: str
    """The public status of a ready instance; old clients wait for "running"."""
    policy: Policy
    """By which creates in doubt are resolved."""
    poll_interval: timedelta

    def status(self, phase: Phase) -> str:
        """The public word for *phase*."""
        return self.ready_word if phase is Phase.READY else phase.value

    def phases(self, word: Phase) -> list[Phase]:
        """The phases that are shown as *word*."""
        return [p for p in Phase if p is word or self.status(p) == word.value]

    def has_estimate(self, known: InstanceWithOperation) -> bool:
        """Whether it is coming up and waits for nothing of unknown length, so that an estimate can be given."""
        operation, instance = known.operation, known.instance
        is_coming_up = operation is not None and operation.status not in ENDED and instance.phase in COMING_UP
        return is_coming_up and self._reason(instance) is None

    def details(
        self, known: InstanceWithOperation, at: AsOf, *, estimated_ready_at: datetime | None = None
    ) -> InstanceDetails:
        """Everything that is shown of an instance."""
        instance, request, placement = known.instance, known.instance.request, known.instance.placement
        container = request.container or AS_TEMPLATE
        return InstanceDetails(
            id=instance.id,
            name=request.name,
            status=self.status(instance.phase),
            gpu_num=request.gpu_num,
            rootfs_size=request.rootfs_gb,
            region=request.regions[0] if placement is None else placement.region,
            product_id=None if placement is None else placement.product_id,
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
            billing_mode=request.billing_mode if placement is None else placement.billing_mode,
            price=_price(placement),
            billed=is_billed(instance),
            port_mappings=port_mappings(instance.endpoints, instance.phase),
            connection_details=_connection(instance),
            novita_instance_id=instance.provider_id,
            created_at=iso(instance.created_at),
            created_by=instance.created_by,
            labels=dict(instance.labels),
            protected=instance.protected,
            started_at=iso(instance.started_at),
            ready_at=iso(instance.ready_at),
            stopped_at=iso(instance.stopped_at),
            data_kept_until=iso(expires_at(instance)),
            estimated_ready_time=iso(estimated_ready_at),
            last_seen_at=iso(_last_seen_at(instance, at.last_listing_at)),
            stale=self._is_stale(instance, at),
            error=_error(pending_action.shown_failure(instance), secrets_gone=_has_lost_secrets(instance)),
            reason=self._reason(instance),
            lease=lease_details(instance, at.now),
            spot=None if instance.observation.spot is None else _spot(instance.observation.spot),
            health_check=None if instance.health is None else _health(instance.health, instance.phase),
            operation=None if known.operation is None else _summary(known.operation),
            allowed_actions=allowed_actions(instance, known.operation),
            placement=_placement(instance),
            cost=None,
        )

    def _reason(self, instance: Instance) -> str | None:
        """What an instance waits for: to be created, or for a stop or delete to be confirmed."""
        return creation.reason(instance, self.policy) or pending_action.reason(instance)

    def _is_stale(self, instance: Instance, at: AsOf) -> bool:
        """Whether the provider should have listed it by now and did not."""
        if instance.provider_id is None or instance.phase is Phase.TERMINATED:
            return False
        times = (instance.observation.sighted_at, instance.started_at, at.last_listing_at)
        seen = max((time for time in times if time is not None), default=None)
        return seen is None or at.now - seen > LISTINGS_MISSED * self.poll_interval


def port_mappings(endpoints: Iterable[Endpoint], phase: Phase) -> list[PortMapping]:
    """The ports of an instance; their addresses only while they are certainly its own."""
    return [
        PortMapping(port=e.port, endpoint=e.address if phase in REACHABLE else None, type=e.kind) for e in endpoints
    ]


def operation_details(operation: Operation) -> OperationDetails:
    """Everything that is shown of an operation."""
    return OperationDetails(
        operation_id=operation.id,
        instance_id=operation.instance_id,
        kind=operation.kind,
        status=operation.status,
        phases=_phases(operation),
        created_at=iso(operation.created_at),
        error=_error(operation.error),
    )


def _summary(operation: Operation) -> OperationSummary:
    return OperationSummary(
        operation_id=operation.id, kind=operation.kind, status=operation.status, phases=_phases(operation)
    )


def _phases(operation: Operation) -> dict[str, str]:
    return {step: iso(at) for step, at in operation.stamps.items()}


def _last_seen_at(instance: Instance, last_listing_at: datetime | None) -> datetime | None:
    """When it was last listed: sightings are recorded when they change, so an unchanged one is as of the listing."""
    seen = instance.observation.sighted_at
    gone = instance.observation.unlisted_since is not None or instance.observation.sighting is Sighting.ABSENT
    if seen is None or last_listing_at is None or gone or instance.phase is Phase.TERMINATED:
        return seen
    return max(seen, last_listing_at)


SECRETS_GONE: Final = "Its secrets are not kept: a request to create another one has to give them again."


def error_details(code: str, message: str) -> ErrorDetails:
    """A failure with *code*, and what can be done about it."""
    return ErrorDetails(code=code, message=message, next_step=failure_next_step(code))


def _has_lost_secrets(instance: Instance) -> bool:
    return bool(instance.request.secret_names) and not creation.may_be_created(instance)


def _error(failure: Failure | None, *, secrets_gone: bool = False) -> ErrorDetails | None:
    if failure is None:
        return None
    details = error_details(failure.code, failure.message)
    if secrets_gone:
        details.next_step = f"{details.next_step} {SECRETS_GONE}"
    return details


def _connection(instance: Instance) -> ConnectionDetails:
    ways = instance.access
    if ways is None or instance.phase not in REACHABLE:
        return ConnectionDetails()
    return ConnectionDetails(ssh=ways.ssh, jupyter=ways.jupyter, web_terminal=ways.web_terminal)


def _spot(spot: Spot) -> SpotDetails:
    return SpotDetails(status=spot.status, reclaim_at=iso(spot.reclaim_at), noticed_at=iso(spot.noticed_at))


def _price(placement: Placement | None) -> float | None:
    return usd(placement.micro_usd) if placement is not None and placement.micro_usd else None


def _placement(instance: Instance) -> PlacementDetails:
    placement, gpus = instance.placement, instance.request.gpu_num
    return PlacementDetails(
        region=None if placement is None else placement.region,
        product_id=None if placement is None else placement.product_id,
        price=_price(placement),
        tried=[
            TriedOffer(
                region=tried.region,
                product_id=tried.product_id,
                price=None if tried.micro_usd_per_gpu is None else usd(tried.micro_usd_per_gpu * gpus),
                reason=tried.reason,
                billing_mode=tried.billing_mode,
            )
            for tried in instance.tried
        ],
    )


def _health(report: HealthReport, phase: Phase) -> HealthCheck:
    return HealthCheck(
        overall_status=report.overall,
        endpoints=[_endpoint(endpoint, phase) for endpoint in report.endpoints],
        checks=report.checks,
        retryable=all(error.retryable for error in report.errors),
        first_checked=iso(report.first_checked_at),
        last_checked=iso(report.last_checked_at),
    )


def _endpoint(endpoint: EndpointHealth, phase: Phase) -> EndpointCheck:
    error = endpoint.error
    return EndpointCheck(
        port=endpoint.port,
        type=endpoint.kind,
        endpoint=endpoint.address if phase in REACHABLE else None,
        status=endpoint.status,
        response_time=endpoint.response_time_ms,
        error=None
        if error is None
        else CheckError(category=error.category.value, message=error.message, retryable=error.retryable),
        last_checked=iso(endpoint.last_checked_at),
    )
