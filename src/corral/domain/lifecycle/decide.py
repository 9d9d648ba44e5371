"""What to do next about one instance. Pure: the same record and time give the same decision."""

from __future__ import annotations

from datetime import datetime, timedelta

from corral.domain.errors import Failure
from corral.domain.health.rechecks import HEALTH_FAILURES, check_time, is_unhealthy, until_recheck
from corral.domain.instance import Instance
from corral.domain.lifecycle import pending_action
from corral.domain.lifecycle.creation import TIMED_OUT, decide_uncreated
from corral.domain.lifecycle.data_expiry import purged, with_warning
from corral.domain.lifecycle.pending_action import is_awaited
from corral.domain.lifecycle.phases import COMING_UP, UP, Action, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.tables import AFTER_SIGHTING, PLAN
from corral.domain.lifecycle.transitions import Decision, is_due, provider_failure
from corral.domain.observation.sighting import Sighting
from corral.domain.observation.spot import is_taken, notice
from corral.domain.timing import delay

FALLIBLE = COMING_UP | {Phase.STOPPING}
"""Phases that a failure ends. An instance that is ready, stopped or to be deleted stays in its phase."""


def decide(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """The phase to record and the action to do next."""
    return with_warning(_decide(instance, now, policy), instance, now)


def _decide(instance: Instance, now: datetime, policy: Policy) -> Decision:
    if instance.provider_id is None:
        return decide_uncreated(instance, now, policy)
    if instance.observation.unlisted_since is not None and instance.observation.sighting is not Sighting.ABSENT:
        return _unlisted(instance, now, policy)
    since, is_absent = instance.observation.lookup_failed_since, instance.observation.sighting is Sighting.ABSENT
    if instance.goal is Goal.GONE and instance.pending.sent_at is not None and since is not None and not is_absent:
        return _lookup_failed(instance, policy.settle - (now - since), policy)
    phase = _after_sighting(instance, now, policy)
    failure = _failure(instance, now, came_up=_came_up(instance, phase))
    if phase in FALLIBLE and failure is not None and instance.phase is not Phase.FAILED:
        return _given_up(instance, failure, policy)
    stopped = _why_stopped(instance, now) if phase is Phase.EXITED else None
    if stopped is not None:
        return Decision(phase=phase, because=stopped.message, failure=stopped)
    if phase is Phase.FAILED and instance.phase is not Phase.FAILED:
        taken = " (it took the spot machine back)" if is_taken(instance.observation.spot, now) else ""
        vanished = Failure(
            code="INSTANCE_VANISHED", message=f"the provider no longer has this instance{taken}{purged(instance, now)}"
        )
        return Decision(phase=phase, because=vanished.message, failure=vanished)
    return _planned(instance, phase, now, policy)


def why(before: Instance, after: Instance, decision: Decision) -> str:
    """The reason in the event of a decision: the reclaim notice if it announces one, the lease if that ended it."""
    announces = after.announced_spot is not before.announced_spot and after.phase is before.phase
    if announces and after.announced_spot is not None:
        return notice(after.announced_spot)
    cause = None if after.lease is None or after.phase is before.phase else after.lease.ended_by
    if cause is None or after.phase not in {Phase.EXITED, Phase.TERMINATED}:
        return decision.because
    return f"ended by its lease ({cause.replace('_', ' ')}): {decision.because}"


def _unlisted(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """A complete listing lacks it: look it up, and, unless it is to be deleted, look it up again later."""
    leaving = instance.goal is Goal.GONE
    phase = Phase.DELETING if leaving and instance.phase is not Phase.TERMINATED else instance.phase
    checked = instance.observation.absence_checked_at
    end = (
        Action.DELETE if leaving else Action.STOP if instance.goal is Goal.STOPPED and phase is Phase.STOPPING else None
    )
    if end is not None and instance.pending.sent_at is None:
        # The list may be wrong, and a lookup wrong or unavailable: neither replaces or delays the call.
        because = f"missing in the provider's list, and no {end} was sent yet"
        return Decision(phase=phase, action=end, because=because, requeue_after=policy.repeat_after)
    due = checked is None or leaving or now - checked >= policy.vanish_gap
    return Decision(
        phase=phase,
        action=Action.CONFIRM if due else None,
        because="missing in the provider's list",
        requeue_after=policy.vanish_gap if not leaving else policy.repeat_after,
    )


def _lookup_failed(instance: Instance, wait: timedelta, policy: Policy) -> Decision:
    """
    A delete was sent and a lookup did not find it, but no listing confirmed that yet: look it up again after *wait*.

    Then the settle time is over: an inconsistent provider cannot be distinguished from a deleted instance then.
    """
    phase = instance.phase if instance.phase is Phase.TERMINATED else Phase.DELETING
    if wait > timedelta(0):
        return Decision(phase=phase, because="not found by its id; it is looked up once more", requeue_after=wait)
    because = "not found by its id for a while"
    return Decision(phase=phase, action=Action.CONFIRM, because=because, requeue_after=policy.repeat_after)


def _why_stopped(instance: Instance, now: datetime) -> Failure | None:
    """The failure of an instance that was just seen stopped; None if it was to stop, or stopped after it was ready."""
    if instance.goal is not Goal.RUNNING or instance.phase is Phase.EXITED:
        return None
    if is_taken(instance.observation.spot, instance.observation.sighted_at or now):
        message = (
            "the provider took its spot machine back; its disk is kept for some days: start it again, or create another"
        )
        return Failure(code="SPOT_RECLAIMED", message=message)
    never_up = instance.phase in COMING_UP and instance.ready_at is None
    if never_up or (instance.deadline_at is not None and is_due(instance, instance.phase)):
        return Failure(code="STARTUP_FAILED", message="it stopped before it was ready; its disk is kept for some days")
    return None


def _until_stopped(instance: Instance, now: datetime, policy: Policy) -> timedelta | None:
    """How long a machine that restarts may still be seen stopped before that counts; None if it is not seen stopped."""
    if instance.phase is not Phase.RESTARTING or instance.observation.sighting is not Sighting.EXITED:
        return None
    return policy.settle - (now - (instance.observation.sighted_at or instance.phase_since))


def _after_sighting(instance: Instance, now: datetime, policy: Policy) -> Phase:
    leaving = instance.goal is Goal.GONE and instance.phase is not Phase.TERMINATED
    before = Phase.DELETING if leaving else instance.phase
    if before is Phase.CREATING:
        before = Phase.STARTING  # it has a machine: the create is over, also if nothing was seen of it yet
    if instance.observation.sighting is None or is_awaited(instance):
        return before
    if instance.goal is Goal.STOPPED and instance.observation.sighting is Sighting.EXITED:
        return Phase.EXITED
    if before is Phase.FAILED and not _heals(instance):
        return before
    passing = _until_stopped(instance, now, policy)
    if passing is not None and passing > timedelta(0):
        return before
    after = AFTER_SIGHTING[before][instance.observation.sighting]
    # An instance that is to be stopped is stopping until it is, and again if it comes up by itself.
    return Phase.STOPPING if instance.goal is Goal.STOPPED and after in UP else after


def _heals(instance: Instance) -> bool:
    """Whether the last observation may end a failure: only one made after it that reports no failure itself."""
    lasting = instance.failure is not None and instance.failure.code in HEALTH_FAILURES
    newer = instance.observation.sighted_at is not None and instance.observation.sighted_at > instance.phase_since
    return newer and not lasting and instance.observation.failure is None


def _came_up(instance: Instance, phase: Phase) -> bool:
    """Whether the last observation is the first to show it running."""
    return phase is Phase.RUNNING and instance.phase not in {Phase.RUNNING, Phase.HEALTH_CHECKING}


def _failure(instance: Instance, now: datetime, *, came_up: bool) -> Failure | None:
    if instance.observation.failure is not None:
        return provider_failure(instance.observation.failure)
    if not came_up and instance.deadline_at is not None and now >= instance.deadline_at:
        last = instance.observation.provider_status or "never"
        message = f"not ready in time (last seen: {last}); still watched, and perhaps billed"
        return Failure(code=TIMED_OUT, message=message)
    return None


def _given_up(instance: Instance, failure: Failure, policy: Policy) -> Decision:
    """It did not come up: it fails, or goes back to where it was if the start or restart was not carried out."""
    if failure.code != TIMED_OUT or not is_awaited(instance):
        again = policy.failed_interval if instance.observation.sighting is Sighting.RUNNING else None
        return Decision(phase=Phase.FAILED, because=failure.message, requeue_after=again, failure=failure)
    stopped = instance.pending.action is Action.START or instance.observation.sighting is Sighting.EXITED
    failure = instance.pending.refused or Failure(
        code=TIMED_OUT, message=f"the provider did not {instance.pending.action} it in time"
    )
    return Decision(
        phase=Phase.EXITED if stopped else Phase.RUNNING,
        because=failure.message,
        requeue_after=None if stopped else policy.poll,
        failure=failure,
    )


def _planned(instance: Instance, phase: Phase, now: datetime, policy: Policy) -> Decision:
    action = _wanted(instance, phase)
    status = instance.observation.provider_status
    because = f"the provider says {status}" if status else "recorded"
    requeue_after: timedelta | None = None
    if phase in COMING_UP and instance.deadline_at is not None:
        requeue_after = max(instance.deadline_at - now, policy.poll)
    elif action is not None:
        requeue_after = policy.failed_interval if phase is Phase.FAILED else policy.repeat_after
    if phase is Phase.RESTARTING and (passing := _until_stopped(instance, now, policy)) is not None:
        requeue_after = min(passing, requeue_after or passing)
    if action is Action.PROBE:
        requeue_after = min(check_time(instance, policy), requeue_after or policy.settle)
    pause = _pause(instance, action, now, policy)
    if pause > timedelta(0):
        because = "sent to the provider; waiting"
        again = min(pause, requeue_after or pause) if phase in COMING_UP else pause
        return Decision(phase=phase, because=because, requeue_after=again)
    return Decision(phase=phase, action=action, because=because, requeue_after=requeue_after)


def _wanted(instance: Instance, phase: Phase) -> Action | None:
    """The action of the plan, unless nothing is left to do."""
    action = PLAN[phase][instance.goal]
    if phase is Phase.FAILED and instance.goal is Goal.RUNNING and is_unhealthy(instance):
        return Action.PROBE
    if action in {Action.START, Action.RESTART} and not (instance.pending.action is action and is_awaited(instance)):
        return None
    if phase is Phase.FAILED and not _second_chance(instance, action):
        return None
    return action


def _second_chance(instance: Instance, action: Action | None) -> bool:
    """Whether *action* may still help a failed instance: it must exist, and for INSPECT have only been late."""
    if action is Action.STOP:
        return instance.observation.sighting not in {Sighting.EXITED, Sighting.ABSENT}
    late = instance.failure is not None and instance.failure.code == TIMED_OUT
    healthy = instance.observation.sighting is Sighting.RUNNING and instance.observation.failure is None
    return action is not Action.INSPECT or (late and healthy)


def _pause(instance: Instance, action: Action | None, now: datetime, policy: Policy) -> timedelta:
    """How long to wait before the call of *action* is sent again."""
    match action:
        case Action.PROBE if instance.phase is Phase.FAILED:
            return until_recheck(instance, now, policy)
        case None | Action.CREATE | Action.INSPECT | Action.PROBE | Action.CONFIRM:
            return timedelta(0)
        case Action.STOP | Action.DELETE:
            return pending_action.pause(instance, now, policy)
        case Action.START | Action.RESTART if instance.pending.refused is not None:
            first, most = policy.first_refusal.total_seconds(), policy.last_refusal.total_seconds()
            patience = timedelta(seconds=delay(max(instance.pending.attempts, 1), first=first, most=most))
        case _:
            patience = policy.settle
    sent_at = instance.pending.sent_at
    return timedelta(0) if sent_at is None else max(patience - (now - sent_at), timedelta(0))
