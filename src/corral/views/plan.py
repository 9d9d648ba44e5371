"""How a choice of offers is shown: those that would serve, in order, and why the others would not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.budgets.admission import exceeds
from corral.domain.budgets.budget import Standing
from corral.domain.placement.catalog import BillingMode
from corral.domain.placement.pricing import usd
from corral.domain.placement.rank import Candidate, Ranking, Reason, Rejection
from corral.domain.timing import iso

PricePerGpu = Annotated[float, Meta(description="USD per GPU-hour.")]


class OfferDetails(msgspec.Struct, rename="camel"):
    """One offer that would serve."""

    region: Annotated[str, Meta(description="Region code, as CN-HK-01.")]
    cluster_id: Annotated[str, Meta(description="The provider's id of that region.")]
    product_id: Annotated[str, Meta(description="The provider's id of the product.")]
    product_name: Annotated[str, Meta(description="Name shared by products of the same GPU.")]
    billing_mode: Annotated[BillingMode, Meta(description="How it is paid for.")]
    price_per_gpu: PricePerGpu
    price: Annotated[float, Meta(description="USD per hour for the whole instance.")]
    cpu_per_gpu: Annotated[int, Meta(description="vCPUs that come with each GPU.")]
    memory_per_gpu: Annotated[int, Meta(description="GB of memory that come with each GPU.")]


class RejectedOffer(msgspec.Struct, rename="camel"):
    """One offer, or a whole region, that would not."""

    region: Annotated[str, Meta(description="Region code.")]
    product_id: Annotated[str | None, Meta(description="Null when the whole region is meant.")]
    billing_mode: Annotated[BillingMode | None, Meta(description="Null when the whole region is meant.")]
    price_per_gpu: Annotated[float | None, Meta(description="USD per GPU-hour; null when it has no price.")]
    reason: Annotated[Reason, Meta(description="Why, for programs.")]
    message: Annotated[str, Meta(description="Why, for people.")]


class PlannedBudget(msgspec.Struct, rename="camel"):
    """A budget that the request would have to fit into, in USD."""

    budget: Annotated[str, Meta(description="Its name.")]
    limit: float
    spent: float
    reserved: float
    wanted: Annotated[float, Meta(description="What the request would reserve.")]
    resets_at: Annotated[str | None, Meta(description="When its next period begins; null: never.")]
    refuses: Annotated[bool, Meta(description="Whether it would refuse the request now.")]


class PlanDetails(msgspec.Struct):
    """All that was considered."""

    candidates: Annotated[list[OfferDetails], Meta(description="What would serve, best first.")]
    rejected: Annotated[list[RejectedOffer], Meta(description="What would not, and why.")]


class CreatePlan(PlanDetails):
    """What a create would try, and the budgets that would have to allow it."""

    budgets: Annotated[list[PlannedBudget], Meta(description="The budgets that count it, by name.")]


def plan_details(ranking: Ranking) -> PlanDetails:
    """A ranking as answers show it."""
    return PlanDetails(
        candidates=[offer_details(candidate) for candidate in ranking.candidates],
        rejected=[_rejected(rejection) for rejection in ranking.rejected],
    )


def create_plan(ranking: Ranking, wanted: int, standings: Sequence[Standing]) -> CreatePlan:
    """A ranking with the *standings* of the budgets of which a create would reserve *wanted*."""
    plan = plan_details(ranking)
    budgets = [_planned(standing, wanted) for standing in standings]
    return CreatePlan(candidates=plan.candidates, rejected=plan.rejected, budgets=budgets)


def _planned(standing: Standing, wanted: int) -> PlannedBudget:
    return PlannedBudget(
        budget=standing.budget.name,
        limit=usd(standing.budget.limit_micro_usd),
        spent=usd(standing.spent),
        reserved=usd(standing.reserved),
        wanted=usd(wanted),
        resets_at=iso(standing.resets_at),
        refuses=standing.budget.refuses and exceeds(standing, wanted),
    )


def offer_details(candidate: Candidate) -> OfferDetails:
    """A candidate as answers show it."""
    return OfferDetails(
        region=candidate.region,
        cluster_id=candidate.offer.cluster_id,
        product_id=candidate.offer.product_id,
        product_name=candidate.product.name,
        billing_mode=candidate.offer.billing_mode,
        price_per_gpu=usd(candidate.micro_usd_per_gpu),
        price=usd(candidate.micro_usd),
        cpu_per_gpu=candidate.product.cpu_per_gpu,
        memory_per_gpu=candidate.product.memory_gb_per_gpu,
    )


def _rejected(rejection: Rejection) -> RejectedOffer:
    price = rejection.micro_usd_per_gpu
    return RejectedOffer(
        region=rejection.region,
        product_id=rejection.product_id,
        billing_mode=rejection.billing_mode,
        price_per_gpu=None if price is None else usd(price),
        reason=rejection.reason,
        message=rejection.because,
    )
