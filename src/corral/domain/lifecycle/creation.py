"""What the record of an instance says before, during and after its create call. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from corral.domain.backoff import delay
from corral.domain.instance import CreateAttempt, CreateWait, Failure, Instance, Placement
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.tables import Goal, Phase
from corral.domain.placement.rank import SHORT_FOR_NOW, Candidate, Ranking

CREATE_WITHIN: Final = timedelta(minutes=20)
"""How long a create may take until the instance is ready. Shorter, and a large image is given up while it is pulled;
longer, and a machine that never comes up is reported later and billed meanwhile."""
OF_CAPACITY: Final = frozenset({"RESOURCE_CONSTRAINTS", "NO_OPTIMAL_PRODUCT_ANY_REGION"})
"""Every offer is short, too dear or not listed at the moment."""
NOT_LISTED: Final = "ACCOUNT_NOT_LISTED"
"""No complete listing of the account was compared with the records since the start; see
`engine/reconcile/create_gate.py`."""
NOT_CARRIED_OUT: Final = "NOVITA_API_ERROR"
"""
The provider could not be asked, or certainly did not carry out the create call: an outage, throttling, a refusal by the
proxy in front of it. One code for all of them, because the same wait would otherwise cause an event with every change.
"""
PASSING: Final = OF_CAPACITY | {
    "AUTHENTICATION_FAILED",
    "INSUFFICIENT_BALANCE",
    "PRODUCT_NOT_FOUND",
    NOT_LISTED,
    NOT_CARRIED_OUT,
}
"""
What an accepted create may meet without failing at once. A rejected key and an empty account are put right by a person;
a product that was for sale when the request was accepted is missing in a catalog that was read at a bad moment.
"""
FIRST_RETRY_SECONDS: Final = 5.0
LAST_RETRY_SECONDS: Final = 60.0
"""Pauses between tries: the first, doubling to the last. Shorter, and creates that wait use up the rate limit; longer,
and a machine that became free is taken by another customer."""


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
        return _placement(ranking.candidates[0])
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
        placement=_placement(candidate),
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


def _placement(candidate: Candidate) -> Placement:
    return Placement(
        region=candidate.region,
        cluster_id=candidate.offer.cluster_id,
        product_id=candidate.offer.product_id,
        billing_mode=candidate.offer.billing_mode,
        micro_usd=candidate.micro_usd,
    )
