"""
Usage: a span in which a machine may be billed, what it is billed for, and to which groups of costs it belongs. Pure.

Another price, cause or label is another span, so that every sum of spans is a sum of money.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from corral.domain.costs.meter import FREE_DISK_GB, Gauge, MeterState
from corral.domain.instance import Instance, Labels
from corral.domain.leases.lease import EndCause
from corral.domain.lifecycle.phases import ENDING, Goal, Phase
from corral.domain.observation.sighting import Sighting

DISK_PRICE: Final = 5000
"""Micro-USD for one GB above the free part and one day."""
HOURS: Final = 24
"""Prices of usage are for a day, so that the price of a disk, published for a day, is a whole number."""


class UsageKind(StrEnum):
    """What is billed."""

    GPU = "gpu"
    DISK = "disk"


class UsageCause(StrEnum):
    """Why a machine is billed."""

    BOOTING = "booting"
    """It comes up; also a restart, and the provider's move of it to another machine."""
    SERVING = "serving"
    """It is ready."""
    IDLE = "idle"
    """It is ready, and its lease has given notice because it is idle."""
    FAILED = "failed"
    """It did not become ready, and still exists."""
    DELETING = "deleting"
    """It is being stopped or deleted."""
    OVERLAP = "overlap"
    """The machine that its instance had before the present one."""
    ORPHAN = "orphan"
    """Made by this installation; no record has its instance."""
    DUPLICATE = "duplicate"
    """Made by this installation; its instance has another machine."""
    STOPPED_DISK = "stopped_disk"
    """It is stopped; its disk is kept."""


UNRECORDED: Final = frozenset({UsageCause.OVERLAP, UsageCause.ORPHAN, UsageCause.DUPLICATE})
"""Causes of machines that no record names; listings alone show whether they still exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTerms:
    """What a span is billed for, and to which groups it belongs."""

    instance_id: str | None
    """None: a machine without an instance."""
    cause: UsageCause
    unit_price: int
    """Micro-USD for one unit and one day; 0 while it is not known."""
    quantity: int
    """GPUs, or GB above the free part."""
    is_estimated: bool
    """Whether the price is not the one that was agreed when the machine was created."""
    product_name: str
    region: str
    billing_mode: str
    created_by: str | None
    labels: Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is known of an instant from the record and the provider's own times; the database knows more."""

    by: datetime
    """It was not later than this."""
    floor: datetime | None = None
    """Not before this, by the provider's clock."""
    ceiling: datetime | None = None
    """Not after this, by the provider's clock; ignored if an observation shows otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUsage:
    """A span that begins."""

    terms: UsageTerms
    since: datetime
    """It did not begin before this."""
    after_listing: bool = False
    """Whether it did not begin before the last listing either, which showed it unbilled."""
    started: Bounds | None = None
    """None: it may have begun, and no observation has shown that yet."""
    confirmed_at: datetime
    """When the last observation that showed it began; of one that has not begun, until when it had not."""
    unless_open: bool = False
    """Whether it only begins if no span of the machine is open: its record was written by an earlier release."""
    replaces: str | None = None
    """The machine that its instance had before. It did not begin long before the last listing that showed that one, nor
    before the end of its own spans as a second machine."""
    unlisted_from: datetime | None = None
    """When a listing first lacked the machine before: what confirmed that one later was no listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageChange:
    """What one write changes in the open spans of one machine and kind, and the span that follows."""

    provider_id: str
    kind: UsageKind
    follows: bool = False
    """Whether listings that show the machine unchanged confirm its spans."""
    known_at: datetime | None = None
    """Up to when the record knows that the open span was as it is: billed, or not begun."""
    confirmed_at: datetime | None = None
    """Up to when this write confirms what it then is."""
    started: Bounds | None = None
    """The span has begun."""
    ended: Bounds | None = None
    """The span ends."""
    is_off: bool = False
    """Whether it ends because the machine is no longer billed, and not because its terms change."""
    terms: UsageTerms | None = None
    """Of a span that has not begun yet: its new terms."""
    begins: NewUsage | None = None
    becomes: str | None = None
    """The id of the machine, if only its create call was known until now."""
    is_void: bool = False
    """Whether the span never was: the create call certainly made no machine."""

    @property
    def changes_open(self) -> bool:
        """Whether it changes a span that is open, and does not only begin one."""
        is_changed = self.known_at is not None or self.started is not None or self.ended is not None
        return is_changed and not self.is_void


def terms_of(instance: Instance, kind: UsageKind) -> UsageTerms | None:
    """What *instance* is, or may be, billed for by its machine; None: nothing of that kind."""
    gauge = gauge_of(instance, kind)
    return None if gauge is None or gauge.state is MeterState.UNBILLED else machine_terms(instance, kind)


def machine_terms(instance: Instance, kind: UsageKind) -> UsageTerms | None:
    """What a machine of *instance* would be billed for while it runs; None: nothing of that kind."""
    request, placement = instance.request, instance.placement
    if kind is UsageKind.DISK:
        unit_price, quantity = DISK_PRICE, max(_disk_gb(instance) - FREE_DISK_GB, 0)
    else:
        unit_price, quantity = gpu_price(0 if placement is None else placement.micro_usd, request.gpu_num)
    if quantity == 0:
        return None
    return UsageTerms(
        instance_id=instance.id,
        cause=_cause(instance, kind),
        unit_price=unit_price,
        quantity=quantity,
        is_estimated=kind is UsageKind.GPU and (unit_price == 0 or request.is_adopted),
        product_name=request.product_name,
        region=request.regions[0] if placement is None else placement.region,
        billing_mode=request.billing_mode if placement is None else placement.billing_mode,
        created_by=instance.created_by,
        labels=instance.labels,
    )


def gpu_price(micro_usd: int, gpus: int) -> tuple[int, int]:
    """
    The price of one GPU for a day, and how many there are; *micro_usd* is that of all of them for an hour.

    If it is not a multiple of their number, all of them count as one unit.
    """
    unit_price, rest = divmod(micro_usd * HOURS, max(gpus, 1))
    return (unit_price, max(gpus, 1)) if not rest else (micro_usd * HOURS, 1)


def is_billed(instance: Instance) -> bool:
    """Whether the GPUs of its machine are billed, by what was last seen of it."""
    gauge = gauge_of(instance, UsageKind.GPU)
    return gauge is not None and gauge.state is MeterState.BILLED


def gauge_of(instance: Instance, kind: UsageKind) -> Gauge | None:
    """What is known of the billing of its machine; None without a machine, or in a record of an earlier release."""
    meter = instance.observation.meter
    if meter is None or instance.provider_id is None:
        return None
    return meter.gpu if kind is UsageKind.GPU else meter.disk


def follows_listings(instance: Instance) -> bool:
    """Whether its machine is in every listing that is right."""
    seen = instance.observation
    return (
        seen.meter is not None
        and seen.sighting is not Sighting.ABSENT
        and seen.unlisted_since is None
        and seen.lookup_failed_since is None
        and seen.found_unlisted_since is None
    )


def _disk_gb(instance: Instance) -> int:
    meter = instance.observation.meter
    return instance.request.rootfs_gb if meter is None or meter.disk_gb is None else meter.disk_gb


def _cause(instance: Instance, kind: UsageKind) -> UsageCause:
    meter = instance.observation.meter
    if kind is UsageKind.DISK and meter is not None and meter.gpu.state is MeterState.UNBILLED:
        return UsageCause.STOPPED_DISK
    if instance.goal is Goal.GONE or instance.phase in ENDING or instance.phase is Phase.TERMINATED:
        return UsageCause.DELETING
    if instance.phase is Phase.FAILED:
        return UsageCause.FAILED
    if instance.phase is not Phase.READY:
        return UsageCause.BOOTING
    notice = None if instance.lease is None else instance.lease.notice
    return UsageCause.IDLE if notice is not None and notice.cause is EndCause.IDLE else UsageCause.SERVING
