"""What a create would do, typed: the offers in order, those rejected, and the budgets that matter."""

from __future__ import annotations

import msgspec

from corral_client.models.budgets import PlannedBudget


class Offer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One offer that would serve."""

    region: str
    cluster_id: str
    product_id: str
    product_name: str
    billing_mode: str
    price_per_gpu: float
    price: float
    cpu_per_gpu: int
    memory_per_gpu: int


class RejectedOffer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One offer that would not, or a whole region when the product is None."""

    region: str
    product_id: str | None = None
    billing_mode: str | None = None
    price_per_gpu: float | None = None
    reason: str
    message: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a create would try, best first, and what it would not and why."""

    candidates: list[Offer]
    rejected: list[RejectedOffer] = []
    budgets: list[PlannedBudget] = []
    """Those that would have to allow it; of `instances.plan` only."""
