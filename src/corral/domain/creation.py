"""What the record of an instance says before, during and after its create call. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from corral.domain.instance import Instance, Placement, ProviderId
from corral.domain.lifecycle import Phase
from corral.domain.placement import Candidate

_ONCE_CREATED = {Phase.CREATING: Phase.STARTING, Phase.TERMINATED: Phase.DELETING}
"""The phases that an id from the provider ends; an instance that is to go, or failed, stays so."""


def intended(instance: Instance, candidate: Candidate, now: datetime) -> Instance:
    """The instance before a create call for *candidate*, under a name that no call was ever sent with."""
    return replace(
        instance,
        attempt=instance.attempt + 1,
        create_sent_at=now,
        create_ended=False,
        doubted_at=None,
        listings_since_sent=0,
        given_up=(*instance.given_up, instance.attempt) if instance.create_in_doubt else instance.given_up,
        placement=Placement(
            region=candidate.region,
            cluster_id=candidate.offer.cluster_id,
            product_id=candidate.offer.product_id,
            billing_mode=candidate.offer.billing_mode,
            micro_usd=candidate.micro_usd,
        ),
    )


def not_created(instance: Instance) -> Instance:
    """The instance after a call that certainly created nothing."""
    return replace(instance, create_sent_at=None)


def in_doubt(instance: Instance, now: datetime) -> Instance:
    """The instance after a call that has ended and may have created a machine; the settle time starts."""
    return replace(instance, create_ended=True, doubted_at=now, listings_since_sent=0)


def created(instance: Instance, provider_id: str, now: datetime) -> Instance:
    """The instance after the provider returned an id, whatever became of the record meanwhile."""
    phase = _ONCE_CREATED.get(instance.phase, instance.phase)
    return replace(
        instance,
        provider_id=ProviderId(provider_id),
        create_sent_at=None,
        phase=phase,
        phase_since=instance.phase_since if phase is instance.phase else now,
        started_at=now,
    )
