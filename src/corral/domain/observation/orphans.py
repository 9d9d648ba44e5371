"""
Orphans: machines that this installation made and that belong to no record.

Causes are a restored or copied database, lost rows, and create calls that had been given up when they took effect. A
machine made by another installation, or without a name of Corral's, is not an orphan.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.events import Change
from corral.domain.instance import CreateRequest, Instance, InstanceId, OperationId, ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.lifecycle.transitions import first_phase
from corral.domain.observation.adoption import NOWHERE, billing_mode
from corral.domain.observation.matching import Unmatched, UnmatchedKind
from corral.domain.observation.provider_names import parse_provider_name
from corral.domain.observation.sighting import GOING, ProviderInstance
from corral.domain.placement.catalog import BillingMode

GRACE: Final = timedelta(hours=1)
"""From when it was first seen until it may be deleted: time for a person to adopt it. Shorter, and a database that is
restored step by step loses machines on the way; longer only costs money."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """One orphan as it was last seen."""

    provider_id: ProviderId
    name: str
    made_for: InstanceId
    """The instance that its name gives."""
    kind: UnmatchedKind
    phase: Phase
    region: str | None
    cluster_id: str | None
    product_id: str | None
    billing_mode: BillingMode
    gpu_num: int
    micro_usd: int | None
    """Per hour, for the whole instance; None while it is not known."""
    first_seen_at: datetime
    asked_at: datetime | None = None
    """When a delete was last sent."""

    @property
    def is_ours(self) -> bool:
        """Whether a create call in our own records explains it, so that it is deleted whatever CORRAL_ORPHANS says."""
        return self.kind is UnmatchedKind.LOST_CREATE

    @property
    def spared_until(self) -> datetime:
        """When its time of grace ends."""
        return self.first_seen_at + GRACE


def orphan_of(found: Unmatched, now: datetime) -> Orphan:
    """The orphan that was *found* just now."""
    origin, seen = found.origin, found.seen
    return Orphan(
        provider_id=ProviderId(seen.id),
        name=seen.name,
        made_for=origin.instance_id,
        kind=found.kind,
        phase=first_phase(seen),
        region=seen.region,
        cluster_id=seen.cluster_id,
        product_id=seen.product_id,
        billing_mode=billing_mode(seen),
        gpu_num=seen.gpu_num or 1,
        micro_usd=None,
        first_seen_at=now,
    )


def orphan_event(orphan: Orphan, record: Instance | None, because: str, now: datetime) -> Change:
    """
    The event that says what is done with *orphan*.

    It belongs to the instance that the machine was made for: to its *record*, or, without one, to its id alone.
    """
    subject = record or Instance(
        id=orphan.made_for,
        request=CreateRequest(
            name=orphan.name,
            product_name="",
            template_id="",
            gpu_num=orphan.gpu_num,
            regions=(orphan.region or NOWHERE,),
            billing_mode=orphan.billing_mode,
        ),
        goal=Goal.RUNNING,
        phase=orphan.phase,
        operation_id=OperationId(""),
        created_at=orphan.first_seen_at,
        phase_since=orphan.first_seen_at,
        deadline_at=None,
        provider_id=orphan.provider_id,
    )
    return Change(before=subject, after=subject, because=because, at=now)


def may_delete(orphan: Orphan, seen: ProviderInstance | None, *, installation: str, now: datetime) -> bool:
    """Whether *orphan* may be deleted now, if a direct lookup showed *seen*."""
    if seen is None or seen.id != orphan.provider_id or seen.sighting in GOING or now < orphan.spared_until:
        return False
    origin = parse_provider_name(seen.name)
    return origin is not None and (origin.installation, origin.instance_id) == (installation, orphan.made_for)
