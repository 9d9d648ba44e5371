"""
The usage of machines that belong to no record: orphans and second machines of an instance. Pure.

No record keeps what was seen of them, so every listing gives all of it again, and the database compares.
"""

from __future__ import annotations

from datetime import datetime

from corral.domain.costs.meter import FREE_DISK_GB, Gauge, MeterState, disk_size, read
from corral.domain.costs.provider_times import PROVIDER_CLOCK, plausible, stop_bounds
from corral.domain.costs.usage import (
    DISK_PRICE,
    Bounds,
    NewUsage,
    UsageCause,
    UsageChange,
    UsageKind,
    UsageTerms,
)
from corral.domain.instance import Instance
from corral.domain.observation.adoption import NOWHERE, billing_mode
from corral.domain.observation.matching import Unmatched, UnmatchedKind


def loose_usage(
    found: Unmatched, record: Instance | None, *, installed_at: datetime, began: datetime, now: datetime
) -> list[UsageChange]:
    """
    What a listing begun at *began* shows of the usage of the machine that it *found*.

    *record* is that of the instance that the machine was made for: it gives its labels and its user. *installed_at* is
    when the installation, which made the machine, began. The price is not known here.
    """
    seen = found.seen
    meter = read(None, seen, began)
    changes: list[UsageChange] = []
    for kind, gauge, quantity in (
        (UsageKind.GPU, meter.gpu, seen.gpu_num or 1),
        (UsageKind.DISK, meter.disk, (disk_size(seen) or 0) - FREE_DISK_GB),
    ):
        if quantity <= 0:
            continue
        if gauge.state is MeterState.UNBILLED:
            changes.append(
                UsageChange(provider_id=seen.id, kind=kind, ended=stop_bounds(seen.stopped_at, now), is_off=True)
            )
        else:
            terms, since = _terms(found, record, kind, quantity), _created_at(found, record, installed_at, now)
            changes.append(_billed(found, kind, gauge, terms, since=since, now=now))
    return changes


def _created_at(found: Unmatched, record: Instance | None, installed_at: datetime, now: datetime) -> datetime:
    """When it was created at the earliest; *now* if neither a record nor the provider says."""
    seen = found.seen
    known = [record.created_at] if record is not None else []
    created_at = plausible(seen.created_at, now)
    if created_at is not None:
        known.append(created_at - PROVIDER_CLOCK)
    return min(max(installed_at, max(known, default=now)), now)


def _billed(
    found: Unmatched, kind: UsageKind, gauge: Gauge, terms: UsageTerms, *, since: datetime, now: datetime
) -> UsageChange:
    # No call or observation of Corral confirms the provider's time of its start, so that time proves no usage.
    started = Bounds(by=now) if gauge.state is MeterState.BILLED else None
    confirmed_at = gauge.at if gauge.is_listed else None
    begins = NewUsage(terms=terms, since=since, started=started, confirmed_at=confirmed_at or since, unless_open=True)
    return UsageChange(
        provider_id=found.seen.id,
        kind=kind,
        known_at=confirmed_at if started is None else None,
        confirmed_at=confirmed_at,
        started=started,
        begins=begins,
    )


def _terms(found: Unmatched, record: Instance | None, kind: UsageKind, quantity: int) -> UsageTerms:
    seen, is_orphan = found.seen, found.kind is UnmatchedKind.NO_RECORD
    return UsageTerms(
        instance_id=found.origin.instance_id,
        cause=UsageCause.ORPHAN if is_orphan else UsageCause.DUPLICATE,
        unit_price=DISK_PRICE if kind is UsageKind.DISK else 0,
        quantity=quantity,
        is_estimated=kind is UsageKind.GPU,
        product_name=seen.product_name or "",
        region=seen.region or NOWHERE,
        billing_mode=billing_mode(seen),
        created_by=None if record is None else record.created_by,
        labels=() if record is None else record.labels,
    )
