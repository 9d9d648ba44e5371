"""Why no offer was taken: what is shown of each, and what follows for the create. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corral.domain.errors import Failure
from corral.domain.instance import RejectedCandidate
from corral.domain.placement.rank import Candidate, Ranking, Rejection


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An offer that was a candidate and was not taken."""

    tried: RejectedCandidate
    short: bool
    """Whether it may be had later."""


def refusal_of(candidate: Candidate, reason: str, *, short: bool) -> Refusal:
    """The refusal of *candidate* for *reason*."""
    tried = RejectedCandidate(
        region=candidate.region,
        product_id=candidate.offer.product_id,
        billing_mode=candidate.offer.billing_mode,
        micro_usd_per_gpu=candidate.micro_usd_per_gpu,
        reason=reason,
    )
    return Refusal(tried=tried, short=short)


def all_tried(ranking: Ranking, refused: Iterable[Refusal]) -> tuple[RejectedCandidate, ...]:
    """Every offer that was rejected or refused; one that was refused and is now remembered as short is shown once."""
    asked = [refusal.tried for refusal in refused]
    known = {(t.region, t.product_id, t.billing_mode) for t in asked}
    rejected = (_tried(r) for r in ranking.rejected if (r.region, r.product_id, r.billing_mode) not in known)
    return (*rejected, *asked)


def nothing_left(tried: Sequence[RejectedCandidate], refused: Sequence[Refusal]) -> Failure:
    """
    What a create that found no offer waits for, or fails with.

    If the provider refused all that it has in stock, the same request would be refused again.
    """
    if refused and not any(refusal.short for refusal in refused):
        message = f"the provider refuses every offer: {refused[-1].tried.reason}"
        return Failure(code="PROVISIONING_FAILED", message=message)
    short = [t for t in tried if t.product_id is not None]
    if short:
        places = ", ".join(dict.fromkeys(t.region for t in short))
        return Failure(code="RESOURCE_CONSTRAINTS", message=f"waiting for capacity: no offer can be had in {places}")
    return Failure(
        code="NO_OPTIMAL_PRODUCT_ANY_REGION", message="waiting for capacity: no region lists this product at the moment"
    )


def _tried(rejection: Rejection) -> RejectedCandidate:
    return RejectedCandidate(
        region=rejection.region,
        product_id=rejection.product_id,
        billing_mode=rejection.billing_mode,
        micro_usd_per_gpu=rejection.micro_usd_per_gpu,
        reason=rejection.because,
    )
