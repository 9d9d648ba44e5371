"""
Orphans: provider instances that carry this installation's mark, though no record says that they were wanted.

They come of a database that was restored from a backup, or lost rows. A mark of another installation is somebody else's
business, and what carries none is nobody's: neither is an orphan.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.adoption import billing_mode
from corral.domain.catalog import BillingMode
from corral.domain.instance import InstanceId, ProviderId
from corral.domain.lifecycle import Phase
from corral.domain.listing import LEAVING, foreign_phase
from corral.domain.marks import Mark, read_mark
from corral.domain.sighting import ProviderInstance

GRACE: Final = timedelta(hours=1)
"""From when it was first seen until it may be deleted: time for a person to adopt it. Shorter, and a database that is
restored step by step loses machines on the way; longer only costs money."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """One of them, as it was last seen."""

    provider_id: ProviderId
    name: str
    made_for: InstanceId
    """The instance that its mark names, and nobody remembers."""
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
    """When its deletion was last asked for."""

    @property
    def spared_until(self) -> datetime:
        """When its time of grace ends."""
        return self.first_seen_at + GRACE


def orphan_of(mark: Mark, seen: ProviderInstance, now: datetime) -> Orphan:
    """The orphan that was *seen* just now."""
    return Orphan(
        provider_id=ProviderId(seen.id),
        name=seen.name,
        made_for=mark.instance_id,
        phase=foreign_phase(seen),
        region=seen.region,
        cluster_id=seen.cluster_id,
        product_id=seen.product_id,
        billing_mode=billing_mode(seen),
        gpu_num=seen.gpu_num or 1,
        micro_usd=None,
        first_seen_at=now,
    )


def may_delete(orphan: Orphan, seen: ProviderInstance | None, *, installation: str, now: datetime) -> bool:
    """Whether *orphan*, of which a direct look tells *seen*, is to be deleted now, as far as the provider goes."""
    if seen is None or seen.id != orphan.provider_id or seen.sighting in LEAVING or now < orphan.spared_until:
        return False
    mark = read_mark(seen.name)
    return mark is not None and (mark.installation, mark.instance_id) == (installation, orphan.made_for)
