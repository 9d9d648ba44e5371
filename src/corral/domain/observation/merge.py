"""
The merged listing: our records and the provider's list, each instance once. Pure.

The provider's status, region and ports are shown. They are put into our record by the rules of the observer (`compare`,
then `decide`), so the listing shows what the next reconcile will record and agrees with `GET /api/instances/{id}` a
moment later. A record with a newer observation than the listing is shown as it is.

How the two compare (`Consistency`), first row that fits:

    we have no record of it                                            novita-newer
    it is not listed, and nothing of it is to be expected there        consistent
    it is not listed, but the provider could not be asked, the
      listing may lack some, or it is too new to be listed             local-newer
    it is not listed, though it should be                              conflicted
    it is listed, though the provider reported it gone                 conflicted (being removed: consistent;
                                                                         reported since it began: local-newer)
    it is listed as another product, or with another number of GPUs    conflicted
    a newer observation differs from the listing                       local-newer
    a command was sent that the provider does not show yet             local-newer
    its state, failure, place or ports are not those we recorded       novita-newer
    otherwise                                                          consistent
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle.decide import decide
from corral.domain.lifecycle.phases import COMING_UP, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.transitions import decided
from corral.domain.observation.compare import compare
from corral.domain.observation.observations import CLOCK_SKEW, ObservationTimes
from corral.domain.observation.sighting import GOING, Endpoint, ProviderInstance, Sighting

_FOLLOWED: Final[Mapping[Goal, frozenset[Sighting]]] = {
    Goal.GONE: GOING,
    Goal.STOPPED: GOING | {Sighting.STOPPING, Sighting.EXITED},
}
_DOWN: Final = frozenset({Sighting.STOPPING, Sighting.EXITED})
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Source(StrEnum):
    """Where an instance is known."""

    LOCAL = "local"
    NOVITA = "novita"
    MERGED = "merged"


class Consistency(StrEnum):
    """How our record and the provider's list compare; the rule is at the top of this file."""

    CONSISTENT = "consistent"
    LOCAL_NEWER = "local-newer"
    NOVITA_NEWER = "novita-newer"
    CONFLICTED = "conflicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderListing:
    """One listing of the account."""

    listed: tuple[ProviderInstance, ...]
    complete: bool
    began: datetime
    now: datetime
    """When it is compared with our records; a listing is compared more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One instance of the merged listing."""

    instance: Instance | None
    """Our record, with what the provider listed; None if there is none."""
    seen: ProviderInstance | None
    consistency: Consistency
    synced_at: datetime | None
    """When it was last observed; None: never."""

    @property
    def source(self) -> Source:
        """Where it is known."""
        if self.instance is None:
            return Source.NOVITA
        return Source.LOCAL if self.seen is None else Source.MERGED

    @property
    def created_at(self) -> datetime | None:
        """When it was requested or, without a record, made."""
        if self.instance is not None:
            return self.instance.created_at
        return None if self.seen is None else self.seen.created_at


def merge(
    local: Mapping[InstanceId, Instance], listing: ProviderListing | None, *, policy: Policy, installation: str
) -> list[Merged]:
    """
    Every instance of *local* and of *listing* (None: the provider could not be asked), newest first.

    *local* holds every record that is not terminated, and every one that belongs to something listed.
    """
    if listing is None:
        found = [_unlisted(instance, None, policy) for instance in local.values()]
    else:
        found = _merged(local, listing, policy, installation)
    return sorted(found, key=_age, reverse=True)


def _merged(
    local: Mapping[InstanceId, Instance], listing: ProviderListing, policy: Policy, installation: str
) -> list[Merged]:
    times = ObservationTimes(began=listing.began, now=listing.now, settle=policy.settle)
    found = compare(local, listing.listed, times, complete=listing.complete, installation=installation)
    after = {**local, **{instance.id: instance for instance in found.changed}}
    listed = {ProviderId(seen.id): seen for seen in listing.listed}
    items: list[Merged] = []
    for instance in local.values():
        compared = after[instance.id]
        seen = None if compared.provider_id is None else listed.pop(compared.provider_id, None)
        if seen is None:
            items.append(_unlisted(instance, listing, policy))
        else:
            items.append(_listed(instance, compared, seen, listing, policy))
    return items + [
        Merged(instance=None, seen=seen, consistency=Consistency.NOVITA_NEWER, synced_at=listing.began)
        for seen in listed.values()
    ]


def _unlisted(instance: Instance, listing: ProviderListing | None, policy: Policy) -> Merged:
    is_uncreated = instance.provider_id is None and not instance.create_in_doubt
    if is_uncreated or _is_gone(instance):
        consistency = Consistency.CONSISTENT
    elif listing is None or not listing.complete or _is_too_new(instance, listing, policy):
        consistency = Consistency.LOCAL_NEWER
    else:
        consistency = Consistency.CONFLICTED
    return Merged(instance=instance, seen=None, consistency=consistency, synced_at=instance.observation.sighted_at)


def _listed(
    before: Instance, compared: Instance, seen: ProviderInstance, listing: ProviderListing, policy: Policy
) -> Merged:
    shown = compared
    if (
        compared is not before or before.observation.sighted_at == listing.began
    ):  # this listing was recorded; a reconcile follows
        shown = decided(compared, decide(compared, listing.began, policy), listing.began)
    if not _is_newer(before, listing):
        shown = _placed(replace(shown, endpoints=_ports(before, seen)), seen)
    return Merged(
        instance=shown,
        seen=seen,
        consistency=_compared(before, seen, listing),
        synced_at=max(listing.began, before.observation.sighted_at or listing.began),
    )


def _compared(instance: Instance, seen: ProviderInstance, listing: ProviderListing) -> Consistency:
    differs = _differs(instance, seen)
    if _is_gone(instance):
        if seen.sighting in GOING:
            return Consistency.CONSISTENT
        return Consistency.LOCAL_NEWER if _is_newer(instance, listing) else Consistency.CONFLICTED
    if _is_another(instance, seen):
        return Consistency.CONFLICTED
    if differs and _is_newer(instance, listing):
        return Consistency.LOCAL_NEWER
    if _awaits(instance, seen):
        return Consistency.LOCAL_NEWER
    return Consistency.NOVITA_NEWER if differs else Consistency.CONSISTENT


def _is_gone(instance: Instance) -> bool:
    return instance.phase is Phase.TERMINATED or instance.observation.sighting is Sighting.ABSENT


def _is_too_new(instance: Instance, listing: ProviderListing, policy: Policy) -> bool:
    """Whether the listing need not show it yet."""
    if instance.provider_id is None or _is_newer(instance, listing):
        return True
    return (
        instance.observation.sighting is None
        and listing.began - (instance.started_at or instance.phase_since) < policy.settle
    )


def _is_newer(instance: Instance, listing: ProviderListing) -> bool:
    return (
        instance.observation.sighted_at is not None
        and listing.began < instance.observation.sighted_at <= listing.now + CLOCK_SKEW
    )


def _is_another(instance: Instance, seen: ProviderInstance) -> bool:
    """Whether the listed machine cannot be the recorded one: another product, or another number of GPUs."""
    product_id = None if instance.placement is None else instance.placement.product_id
    pairs = ((product_id, seen.product_id), (instance.request.gpu_num, seen.gpu_num))
    return any(ours is not None and theirs is not None and ours != theirs for ours, theirs in pairs)


def _awaits(instance: Instance, seen: ProviderInstance) -> bool:
    """Whether a command was sent that the provider does not show yet."""
    if instance.goal is Goal.RUNNING:
        return seen.sighting in _DOWN and instance.phase in COMING_UP
    return seen.sighting not in _FOLLOWED[instance.goal]


def _differs(instance: Instance, seen: ProviderInstance) -> bool:
    placement = instance.placement
    moved = placement is not None and seen.cluster_id is not None and placement.cluster_id != seen.cluster_id
    return (
        instance.observation.sighting is not seen.sighting
        or instance.observation.failure != seen.failure
        or instance.observation.unlisted_since is not None
        or moved
        or (bool(instance.endpoints) and _ports(instance, seen) != instance.endpoints)
    )


def _ports(instance: Instance, seen: ProviderInstance) -> tuple[Endpoint, ...]:
    """The provider's ports; ours if the listing leaves out the ports or their addresses."""
    has_addresses = any(endpoint.address is not None for endpoint in seen.endpoints)
    same = sorted(instance.endpoints, key=_port) == sorted(seen.endpoints, key=_port)
    return instance.endpoints if same or (instance.endpoints and not has_addresses) else seen.endpoints


def _port(endpoint: Endpoint) -> tuple[int, str, str]:
    return endpoint.port, endpoint.kind.value, endpoint.address or ""


def _placed(instance: Instance, seen: ProviderInstance) -> Instance:
    """The instance with the listed region; the recorded name of the region is kept while the cluster is the same."""
    placement = instance.placement
    if placement is None or seen.cluster_id is None or placement.cluster_id == seen.cluster_id:
        return instance
    there = replace(placement, region=seen.region or seen.cluster_id, cluster_id=seen.cluster_id)
    return replace(instance, placement=there)


def _age(item: Merged) -> tuple[datetime, str]:
    own = item.instance.id if item.instance is not None else ""
    return item.created_at or _LONG_AGO, own or (item.seen.id if item.seen is not None else "")
