"""The create call of an instance: whether it is sent, what is recorded around it, and what is shown meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.errors import Failure
from corral.domain.instance import CreateAttempt, CreateWait, Instance, Placement, RejectedCandidate
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.lifecycle.policy import FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, Policy
from corral.domain.lifecycle.transitions import Decision
from corral.domain.placement.rank import SHORT_FOR_NOW, Candidate, Ranking, Rejection
from corral.domain.records import replace
from corral.domain.timing import delay

OF_CAPACITY: Final = frozenset({"RESOURCE_CONSTRAINTS", "NO_OPTIMAL_PRODUCT_ANY_REGION"})
"""Every offer is short, too dear or not listed at the moment."""
NOT_LISTED: Final = "ACCOUNT_NOT_LISTED"
"""No complete listing of the account was compared with the records since the start; see
`engine/reconcile/create_gate.py`."""
KEY_UNUSABLE: Final = "SECRET_KEY_UNUSABLE"
"""This process cannot open the secrets of the create: it has no key, another one, or a file that others can read."""
OVER_BUDGET: Final = "BUDGET_EXCEEDED"
"""The offers that are left cost more than was reserved, and a budget does not allow that."""
NOT_CARRIED_OUT: Final = "NOVITA_API_ERROR"
"""The provider could not be asked, or certainly did not carry out the create call: an outage, throttling, a refusal by
the proxy in front of it. One code for all of them, because the same wait would otherwise cause an event with every
change."""
PASSING: Final = OF_CAPACITY | {
    "AUTHENTICATION_FAILED",
    "INSUFFICIENT_BALANCE",
    "PRODUCT_NOT_FOUND",
    "VOLUME_NOT_FOUND",
    OVER_BUDGET,
    NOT_LISTED,
    NOT_CARRIED_OUT,
    KEY_UNUSABLE,
}
"""What an accepted create may meet without failing at once. A rejected key, an empty account and a missing key file are
put right by a person; a product or volume that was there when the request was accepted is missing in a list that was
read at a bad moment."""
TIMED_OUT: Final = "STARTUP_TIMEOUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An offer that was a candidate and was not taken."""

    tried: RejectedCandidate
    short: bool
    """Whether it may be available later."""
    code: str | None = None
    """What the create waits for, if that is not stock."""


def may_be_created(instance: Instance) -> bool:
    """Whether a create call may still follow: once it has a machine, failed or is to be deleted, none ever does."""
    return instance.provider_id is None and instance.goal is Goal.RUNNING and instance.phase is not Phase.FAILED


def decide_uncreated(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """The decision about an instance without a machine: no create call was sent, or one is in doubt."""
    wanted = may_be_created(instance)
    if instance.create_in_doubt and not _settled(instance, now, policy):
        return _in_doubt(instance, now, policy, wanted=wanted)
    if instance.goal is Goal.GONE:
        return Decision(phase=Phase.TERMINATED, because="never came to be")
    if not wanted:
        return Decision(phase=instance.phase, because="not wanted")
    if instance.waiting is None:
        until, failure = instance.deadline_at, Failure(code=TIMED_OUT, message="could not be created in time")
    else:
        until, failure = retried_until(instance, instance.waiting), waited_too_long(instance.waiting)
    if until is not None and now >= until:
        return Decision(phase=Phase.FAILED, because=failure.message, failure=failure)
    if instance.waiting is not None and instance.waiting.retry_at is not None and now < instance.waiting.retry_at:
        retry_at = instance.waiting.retry_at
        pause = (retry_at if until is None else min(retry_at, until)) - now
        return Decision(phase=Phase.CREATING, because=instance.waiting.message, requeue_after=pause)
    return Decision(phase=Phase.CREATING, action=Action.CREATE, because="requested", requeue_after=policy.settle)


def _in_doubt(instance: Instance, now: datetime, policy: Policy, *, wanted: bool) -> Decision:
    """A create call may have happened: its name is searched for, also after the deadline."""
    since, deadline = instance.create.doubted_at, instance.deadline_at
    # How long the doubt lasts at least; a listing that shows the name ends it earlier.
    left = policy.settle if since is None else max(policy.settle - (now - since), policy.poll)
    because, failure = "a create call may have happened", None
    phase = Phase.DELETING if instance.goal is Goal.GONE else instance.phase
    if wanted and deadline is not None and now < deadline:
        left = min(left, deadline - now)
    elif wanted and deadline is not None:
        because = "could not be created in time; a create call may have happened, and its machine is still searched for"
        phase, failure = Phase.FAILED, Failure(code=TIMED_OUT, message=because)
    return Decision(phase=phase, because=because, requeue_after=left, failure=failure, is_in_doubt=True)


def _settled(instance: Instance, now: datetime, policy: Policy) -> bool:
    """Whether a create call in doubt certainly created nothing."""
    since = instance.create.doubted_at
    waited = since is not None and now - since >= policy.settle
    return waited and instance.create.listings_without >= policy.settle_listings


def retried_until(instance: Instance, obstacle: Failure | CreateWait) -> datetime | None:
    """Until when a create that met *obstacle* is tried again; None: never."""
    wait = instance.request.wait_for_capacity_seconds
    if obstacle.code in OF_CAPACITY and wait is not None:
        return instance.created_at + timedelta(seconds=wait)
    return instance.deadline_at if obstacle.code in PASSING else None


def waited_too_long(obstacle: Failure | CreateWait) -> Failure:
    """The failure of an instance if *obstacle* did not pass in time."""
    gave_up = "gave up " if obstacle.code in OF_CAPACITY else ""
    return Failure(code=obstacle.code, message=f"{gave_up}{obstacle.message}")


def next_wait(
    instance: Instance, obstacle: Failure, now: datetime, *, pause_seconds: float | None = None
) -> CreateWait:
    """The wait after a try that met *obstacle*; the pause before the next try grows unless it is given."""
    tries = 1 if instance.waiting is None else instance.waiting.tries + 1
    if pause_seconds is None:
        pause_seconds = delay(tries, first=FIRST_RETRY_SECONDS, most=LAST_RETRY_SECONDS)
    retry_at = now + timedelta(seconds=pause_seconds)
    return CreateWait(code=obstacle.code, message=obstacle.message, tries=tries, retry_at=retry_at)


def held_up(instance: Instance, why: str) -> Instance:
    """
    The instance after a try in which the provider could not be asked, or certainly did not carry out the call.

    Sets no time for the next try: the job that made this one is run again after the pause of the error.
    """
    if instance.goal is not Goal.RUNNING:
        return instance
    tries = 0 if instance.waiting is None else instance.waiting.tries
    return replace(instance, waiting=CreateWait(code=NOT_CARRIED_OUT, message=why, tries=tries))


def needs_fresh_offers(instance: Instance) -> bool:
    """Whether the next try needs a catalog that is newer than a first try does: an offer may be in stock again."""
    return instance.waiting is not None and instance.waiting.code != NOT_CARRIED_OUT


def reason(instance: Instance, policy: Policy) -> str | None:
    """Why an instance is not created yet; None when nothing delays its create, or it is created."""
    if instance.phase is not Phase.CREATING:
        return None
    since = instance.create.doubted_at
    is_settled = instance.create.listings_without >= policy.settle_listings
    if not instance.create_in_doubt or since is None or is_settled:
        return None if instance.waiting is None else instance.waiting.message
    until = since + policy.settle_time(create_ended=instance.create.ended)
    return (
        f"it is not known whether create call {instance.create.number} made a machine: Corral looks for it by its "
        f"provider name until {until:%Y-%m-%d %H:%M:%S} UTC at least, and in {policy.settle_listings} complete "
        "listings after that, before it sends another call; the machine may be billed meanwhile"
    )


def expected_placement(ranking: Ranking, gpu_num: int) -> Placement:
    """Where an instance would go now; if every offer is short, where it would go if none were."""
    if ranking.candidates:
        return placement_of(ranking.candidates[0])
    short = next(r for r in ranking.rejected if r.product_id is not None and r.reason in SHORT_FOR_NOW)
    assert short.product_id is not None  # noqa: S101  # just chosen so
    assert short.cluster_id is not None  # noqa: S101  # every product has a cluster
    assert short.billing_mode is not None  # noqa: S101  # and a mode
    return Placement(
        region=short.region,
        cluster_id=short.cluster_id,
        product_id=short.product_id,
        billing_mode=short.billing_mode,
        micro_usd=(short.micro_usd_per_gpu or 0) * gpu_num,
    )


def intended(instance: Instance, candidate: Candidate, now: datetime) -> Instance:
    """The instance before a create call for *candidate*, under a name that no call was ever sent with."""
    return replace(
        instance,
        create=CreateAttempt(number=instance.create.number + 1, sent_at=now),
        given_up=(*instance.given_up, instance.create.number) if instance.create_in_doubt else instance.given_up,
        placement=placement_of(candidate),
    )


def maybe_created(instance: Instance, now: datetime) -> Instance:
    """An instance without a machine whose create call a restored database may have lost: that call is in doubt."""
    return replace(instance, create=CreateAttempt(number=instance.create.number + 1, sent_at=now))


def not_created(instance: Instance) -> Instance:
    """The instance after a call that certainly created nothing."""
    return replace(instance, create=replace(instance.create, sent_at=None))


def in_doubt(instance: Instance, now: datetime) -> Instance:
    """The instance after a call that has ended and may have created a machine; the settle time starts."""
    return replace(instance, create=replace(instance.create, ended=True, doubted_at=now, listings_without=0))


def placement_of(candidate: Candidate) -> Placement:
    """Where an instance is that takes *candidate*."""
    return Placement(
        region=candidate.region,
        cluster_id=candidate.offer.cluster_id,
        product_id=candidate.offer.product_id,
        billing_mode=candidate.offer.billing_mode,
        micro_usd=candidate.micro_usd,
    )


def refusal_of(candidate: Candidate, reason: str, *, short: bool, code: str | None = None) -> Refusal:
    """The refusal of *candidate* for *reason*."""
    tried = RejectedCandidate(
        region=candidate.region,
        product_id=candidate.offer.product_id,
        billing_mode=candidate.offer.billing_mode,
        micro_usd_per_gpu=candidate.micro_usd_per_gpu,
        reason=reason,
    )
    return Refusal(tried=tried, short=short, code=code)


def all_tried(ranking: Ranking, refused: Iterable[Refusal]) -> tuple[RejectedCandidate, ...]:
    """Every offer that was rejected or refused; one that was refused and now counts as short is shown once."""
    asked = [refusal.tried for refusal in refused]
    known = {(t.region, t.product_id, t.billing_mode) for t in asked}
    rejected = (_tried(r) for r in ranking.rejected if (r.region, r.product_id, r.billing_mode) not in known)
    return (*rejected, *asked)


def nothing_left(tried: Sequence[RejectedCandidate], refused: Sequence[Refusal]) -> Failure:
    """
    What a create that found no offer waits for, or fails with.

    If the provider refused all that it has in stock, the same request would be refused again.
    """
    waits = [refusal for refusal in refused if refusal.code is not None]
    if waits:
        return Failure(code=waits[-1].code or OVER_BUDGET, message=waits[-1].tried.reason)
    if refused and not any(refusal.short for refusal in refused):
        message = f"the provider refuses every offer: {refused[-1].tried.reason}"
        return Failure(code="PROVISIONING_FAILED", message=message)
    short = [t for t in tried if t.product_id is not None]
    if short:
        places = ", ".join(dict.fromkeys(t.region for t in short))
        return Failure(code="RESOURCE_CONSTRAINTS", message=f"waiting for capacity: no offer is available in {places}")
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
