"""What to do next about one instance. Pure: the same facts give the same answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from corral.domain.instance import Failure, Instance
from corral.domain.lifecycle import AFTER_SIGHTING, COMING_UP, PLAN, Action, Goal, Phase
from corral.domain.sighting import Sighting

HEALTH_FAILURES = frozenset({"HEALTH_CHECK_FAILED", "HEALTH_CHECK_TIMEOUT"})
"""Failures that the provider's word "running" does not heal: it ran all the while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The numbers of the decision."""

    settle: timedelta = timedelta(seconds=60)
    """How long a create may stay invisible in the provider's own listing, counted from when its call was surely over.
    Too short, and a slow listing bills twice; too long, and a lost create is repeated late."""
    settle_listings: int = 2
    """Complete listings without the name that it takes after that."""
    vanish_gap: timedelta = timedelta(seconds=30)
    """Between the two look-ups that it takes to call an instance vanished."""
    vanish_checks: int = 2
    repeat_after: timedelta = timedelta(seconds=15)
    """A stop or delete that shows no effect for this long is asked for again."""
    poll: timedelta = timedelta(seconds=2)
    """How soon to look again at what is in motion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One pass's verdict: record *phase* (and *failure*) first; only then do *action*."""

    phase: Phase
    action: Action | None
    because: str
    look_again: timedelta | None
    """When to look again even if nothing is heard; None: only when something is."""
    failure: Failure | None = None


def decide(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """Turn facts into one verdict."""
    if instance.provider_id is None:
        return _unborn(instance, now, policy)
    if instance.missing_since is not None and instance.sighting is not Sighting.ABSENT:
        return _missing(instance, now, policy)
    phase = _after_sighting(instance)
    failure = _failure(instance, now, came_up=_came_up(instance, phase))
    if phase in COMING_UP and failure is not None and instance.phase is not Phase.FAILED:
        return Decision(phase=Phase.FAILED, action=None, because=failure.message, look_again=None, failure=failure)
    if phase is Phase.FAILED and instance.phase is not Phase.FAILED:
        vanished = Failure(code="INSTANCE_VANISHED", message="the provider no longer has this instance")
        return Decision(phase=phase, action=None, because=vanished.message, look_again=None, failure=vanished)
    return _planned(instance, phase, now, policy)


def recorded(instance: Instance, decision: Decision, now: datetime) -> Instance:
    """The instance as it is once *decision* is written down; the caller's write raises the generation."""
    if decision.action is Action.FIND and instance.doubted_at is None:
        instance = replace(instance, doubted_at=now, listings_since_sent=0)
    if decision.phase is instance.phase:
        return instance
    late = instance.deadline_at is not None and now >= instance.deadline_at
    healed = instance.phase is Phase.FAILED or (late and _came_up(instance, decision.phase))
    return replace(
        instance,
        phase=decision.phase,
        phase_since=now,
        failure=decision.failure,
        # Past its deadline and up all the same: from here on it takes the time it takes.
        deadline_at=None if healed or decision.phase not in COMING_UP else instance.deadline_at,
        stopped_at=now if decision.phase is Phase.EXITED else instance.stopped_at,
    )


def _after_sighting(instance: Instance) -> Phase:
    leaving = instance.goal is Goal.GONE and instance.phase is not Phase.TERMINATED
    before = Phase.DELETING if leaving else instance.phase
    if instance.sighting is None:
        return before
    if before is Phase.FAILED and not _heals(instance):
        return before
    return AFTER_SIGHTING[before][instance.sighting]


def _heals(instance: Instance) -> bool:
    """Whether the provider's last word may heal a failure: only one that came after it, and reports none itself."""
    lasting = instance.failure is not None and instance.failure.code in HEALTH_FAILURES
    newer = instance.sighted_at is not None and instance.sighted_at > instance.phase_since
    return newer and not lasting and instance.provider_failure is None


def _came_up(instance: Instance, phase: Phase) -> bool:
    """Whether the last sighting is the first to show it running."""
    return phase is Phase.RUNNING and instance.phase not in {Phase.RUNNING, Phase.HEALTH_CHECKING}


def _failure(instance: Instance, now: datetime, *, came_up: bool) -> Failure | None:
    if instance.provider_failure is not None:
        return Failure(code="PROVISIONING_FAILED", message=f"the provider reports: {instance.provider_failure}")
    if not came_up and instance.deadline_at is not None and now >= instance.deadline_at:
        return Failure(
            code="STARTUP_TIMEOUT",
            message=f"not ready in time (last seen: {instance.word or 'never'}); still watched, and perhaps billed",
        )
    return None


def _planned(instance: Instance, phase: Phase, now: datetime, policy: Policy) -> Decision:
    action = PLAN[phase][instance.goal]
    because = f"the provider says {instance.word}" if instance.word else "recorded"
    if action in {Action.DELETE, Action.STOP} and _acted_recently(instance, now, policy):
        return Decision(phase=phase, action=None, because="asked for; waiting", look_again=policy.repeat_after)
    look_again: timedelta | None = None
    if phase in COMING_UP and instance.deadline_at is not None:
        look_again = max(instance.deadline_at - now, policy.poll)
    elif action is not None:
        look_again = policy.repeat_after
    return Decision(phase=phase, action=action, because=because, look_again=look_again)


def _acted_recently(instance: Instance, now: datetime, policy: Policy) -> bool:
    return instance.acted_at is not None and now - instance.acted_at < policy.repeat_after


def _unborn(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """No provider instance is known: either none was asked for yet, or a create call is in doubt."""
    wanted = instance.goal is Goal.RUNNING and instance.phase is not Phase.FAILED
    if instance.create_in_doubt and not _settled(instance, now, policy):
        phase = Phase.DELETING if instance.goal is Goal.GONE else instance.phase
        because = "a create call may have happened"
        return Decision(
            phase=phase, action=Action.FIND, because=because, look_again=_until_settled(instance, now, policy)
        )
    if instance.goal is Goal.GONE:
        return Decision(phase=Phase.TERMINATED, action=None, because="never came to be", look_again=None)
    if not wanted:
        return Decision(phase=instance.phase, action=None, because="not wanted", look_again=None)
    if instance.deadline_at is not None and now >= instance.deadline_at:
        failure = Failure(code="STARTUP_TIMEOUT", message="could not be created in time")
        return Decision(phase=Phase.FAILED, action=None, because=failure.message, look_again=None, failure=failure)
    return Decision(phase=Phase.CREATING, action=Action.CREATE, because="wanted", look_again=policy.settle)


def _settled(instance: Instance, now: datetime, policy: Policy) -> bool:
    """Whether a create call in doubt certainly left nothing behind."""
    since = instance.doubted_at
    waited = since is not None and now - since >= policy.settle
    return waited and instance.listings_since_sent >= policy.settle_listings


def _until_settled(instance: Instance, now: datetime, policy: Policy) -> timedelta:
    """How long the doubt lasts at least; a listing that shows the name ends it earlier."""
    since = instance.doubted_at
    return policy.settle if since is None else max(policy.settle - (now - since), policy.poll)


def _missing(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """A complete listing lacks it: ask directly, and, unless it was to go anyway, ask again later."""
    leaving = instance.goal is Goal.GONE
    phase = Phase.DELETING if leaving and instance.phase is not Phase.TERMINATED else instance.phase
    checked = instance.missing_checked_at
    due = checked is None or leaving or now - checked >= policy.vanish_gap
    return Decision(
        phase=phase,
        action=Action.CONFIRM if due else None,
        because="missing in the provider's list",
        look_again=policy.vanish_gap if not leaving else policy.repeat_after,
    )
