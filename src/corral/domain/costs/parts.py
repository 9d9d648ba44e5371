"""Parts of usage: what a line of an export shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from corral.domain.costs.totals import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePart:
    """A span of usage, as far as it is within one day."""

    instance_id: str | None
    instance_name: str | None
    """None also for an instance that is no longer kept."""
    provider_id: str
    kind: str
    cause: str
    unit_price: Fraction
    """Micro-USD for one GPU or GB and one hour."""
    quantity: int
    product_name: str
    region: str
    billing_mode: str
    created_by: str | None
    labels: Mapping[str, str]
    starts_at: datetime
    """In the middle of its bounds, as the end is."""
    ends_at: datetime
    cost: Cost
