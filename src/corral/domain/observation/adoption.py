"""
The record of a machine that Corral did not make and that is adopted.

An adoption sends nothing to the provider and does not change the machine. Its name is not one that Corral gave, so the
record finds it by the provider's id alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Final

from corral.domain.costs.meter import disk_size, read
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.instance import (
    CreateRequest,
    Instance,
    InstanceId,
    Observation,
    OperationId,
    PendingAction,
    Placement,
    ProviderId,
)
from corral.domain.lifecycle.phases import COMING_UP, Goal, Phase
from corral.domain.lifecycle.policy import CREATE_WITHIN
from corral.domain.lifecycle.transitions import first_phase, provider_failure
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.placement.catalog import BillingMode
from corral.domain.requests.fields import LONGEST_NAME

NOWHERE: Final = "unknown"
"""The region of an instance if the provider does not report one."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """The options of an adoption."""

    name: str | None = None
    """None: as it is called at the provider."""
    health: HealthCheckSpec = field(default_factory=HealthCheckSpec)
    webhook_url: str | None = field(default=None, repr=False)


def adopted(
    seen: ProviderInstance,
    adoption: Adoption,
    *,
    micro_usd_per_gpu: int | None,
    instance_id: InstanceId,
    operation_id: OperationId,
    now: datetime,
    adopted_by: str | None = None,
) -> Instance:
    """The record of an instance found at the provider, in the phase that it is seen in."""
    region, gpus, mode = seen.region or NOWHERE, seen.gpu_num or 1, billing_mode(seen)
    phase = first_phase(seen)
    rising = phase in COMING_UP - {Phase.RUNNING}
    return Instance(
        id=instance_id,
        request=CreateRequest(
            name=adoption.name or usable_name(seen.name) or usable_name(seen.id) or "adopted",
            product_name=seen.product_name or "",
            template_id="",
            gpu_num=gpus,
            rootfs_gb=disk_size(seen) or 0,
            regions=(region,),
            billing_mode=mode,
            health=adoption.health,
            webhook_url=adoption.webhook_url,
        ),
        # A stopped machine is left alone under this goal: nothing starts it without a command.
        goal=Goal.RUNNING,
        phase=phase,
        operation_id=operation_id,
        created_at=min(seen.created_at or now, now),
        created_by=adopted_by,
        phase_since=now,
        deadline_at=now + CREATE_WITHIN if rising else None,
        provider_id=ProviderId(seen.id),
        placement=Placement(
            region=region,
            cluster_id=seen.cluster_id or "",
            product_id=seen.product_id or "",
            billing_mode=mode,
            micro_usd=(micro_usd_per_gpu or 0) * gpus,
        ),
        observation=Observation(
            sighting=seen.sighting,
            provider_status=seen.provider_status,
            sighted_at=now,
            failure=seen.failure,
            meter=read(None, seen, now),
        ),
        pending=PendingAction(sent_at=now),
        failure=provider_failure(seen.failure) if phase is Phase.FAILED else None,
        started_at=seen.started_at or seen.created_at or now,
        stopped_at=seen.stopped_at if seen.sighting is Sighting.EXITED else None,
    )


def completed(seen: ProviderInstance, listed: ProviderInstance | None) -> ProviderInstance:
    """*seen* by a lookup, completed by the listing: each leaves out fields that the other has."""
    if listed is None:
        return seen
    silent = [each.name for each in fields(seen) if getattr(seen, each.name) is None]
    return replace(seen, **{name: getattr(listed, name) for name in silent})


def billing_mode(seen: ProviderInstance) -> BillingMode:
    """The billing mode; everything that is not spot counts as on demand."""
    return BillingMode.SPOT if seen.billing_mode == BillingMode.SPOT else BillingMode.ON_DEMAND


def usable_name(name: str) -> str:
    """*name* in the characters that names allow; empty if none is left."""
    return _NOT_IN_A_NAME.sub("-", name).strip("-")[:LONGEST_NAME]
