"""
The call that a start, restart, stop or delete needs: whether it had an effect, when it is repeated, what is shown.

Repeating a stop or delete is harmless, and every second without effect is billed. So it is sent again as soon as an
observation that began after the call ended still shows the machine as it was; at once after a call that certainly was
not carried out; and by the clock where nothing can be observed, later if the provider accepted it. A list may lag
behind, so pauses between repeats grow.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from corral.domain.errors import Failure
from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import ENDING, Action, Goal
from corral.domain.lifecycle.policy import ANSWER_WITHIN, FIRST_REPEAT, Policy
from corral.domain.observation.sighting import GOING, Sighting
from corral.domain.timing import delay

_EFFECTS: Final = {Goal.STOPPED: GOING | {Sighting.STOPPING, Sighting.EXITED}, Goal.GONE: GOING}


def has_happened(instance: Instance) -> bool:
    """
    Whether an observation since shows that the pending action was carried out, by Corral or by another client.

    A machine that restarts may be seen running before and after; `observation/observations.py` distinguishes the two.
    """
    match instance.pending.action, instance.observation.sighting:
        case (None, _) | (_, None | Sighting.ABSENT):
            return False
        case Action.START, sighting:
            return sighting is not Sighting.EXITED
        case _, sighting:
            return sighting is not Sighting.RUNNING and instance.pending.sent_at is not None


def is_awaited(instance: Instance) -> bool:
    """Whether an action is pending, and the machine exists to carry it out."""
    is_there = instance.observation.sighting is not Sighting.ABSENT
    return instance.pending.action is not None and is_there and not has_happened(instance)


def pause(instance: Instance, now: datetime, policy: Policy) -> timedelta:
    """How long to wait before the stop or delete of *instance* is sent."""
    if instance.pending.sent_at is None:
        return timedelta(0)
    if not _is_without_effect(instance):
        least = policy.repeat_accepted if instance.pending.accepted else policy.repeat_after
        patience = max(least, min(instance.pending.sent_at - instance.phase_since, policy.repeat_at_last))
        return max(instance.pending.sent_at + patience - now, timedelta(0))
    # A machine that was booting may refuse what it accepts now.
    if instance.observation.sighting is not instance.pending.sent_on or instance.pending.attempts <= 1:
        return timedelta(0)
    most = policy.repeat_at_last.total_seconds()
    seconds = delay(instance.pending.attempts - 1, first=FIRST_REPEAT.total_seconds(), most=most)
    return max(_ended_at(instance, instance.pending.sent_at) + timedelta(seconds=seconds) - now, timedelta(0))


def is_first_without_effect(instance: Instance, seen: Sighting, at: datetime) -> bool:
    """Whether *seen*, observed from *at* on, is the first to show that the last stop or delete had no effect."""
    if instance.phase not in ENDING or instance.pending.sent_at is None or seen in _EFFECTS.get(instance.goal, ()):
        return False
    ended_at = _ended_at(instance, instance.pending.sent_at)
    return at > ended_at and (instance.observation.sighted_at is None or instance.observation.sighted_at <= ended_at)


def sending(instance: Instance, now: datetime) -> Instance:
    """The instance just before a stop or delete is sent."""
    attempts, sighting = instance.pending.attempts + 1, instance.observation.sighting
    pending = replace(instance.pending, sent_at=now, ended_at=None, accepted=False, sent_on=sighting, attempts=attempts)
    return replace(instance, pending=pending)


def answered(instance: Instance, now: datetime, refused: Failure | None, *, accepted: bool) -> Instance:
    """
    The instance after the call ended; *refused*: the provider said that it does not do it.

    *accepted*: the provider said that it does. It knew the machine then.
    """
    is_delete = instance.goal is Goal.GONE
    deleted_at = instance.delete_accepted_at or (now if accepted and is_delete else None)
    pending = replace(instance.pending, ended_at=now, accepted=accepted, refused=refused)
    return replace(instance, pending=pending, delete_accepted_at=deleted_at)


def not_sent(sent: Instance, before: Instance, why: Failure) -> Instance:
    """The instance after a call that certainly was not carried out: as it was *before*, with the reason."""
    return replace(sent, pending=replace(before.pending, action=sent.pending.action, refused=why))


def reason(instance: Instance) -> str | None:
    """Why an instance that is to be stopped or deleted still is not; None for any other."""
    if instance.phase not in ENDING or instance.goal is Goal.RUNNING:
        return None
    verb, end = ("delete", "gone") if instance.goal is Goal.GONE else ("stop", "stopped")
    if instance.provider_id is None:
        return "a create call may have happened: its machine is searched for, and may be billed until it is found"
    if instance.pending.refused is not None:
        why = f"{instance.pending.refused.message}; the {verb} is sent again"
    elif instance.pending.sent_at is None:
        why = f"the {verb} is about to be sent to the provider"
    elif _is_without_effect(instance):
        times = "once" if instance.pending.attempts == 1 else f"{instance.pending.attempts} times"
        status = instance.observation.provider_status
        why = f"the {verb} was sent {times}, and the provider still says {status}; it is sent again"
    else:
        why = f"the {verb} was sent to the provider, which has not confirmed it yet"
    return f"{why}; the machine may be billed until the provider says that it is {end}"


def shown_failure(instance: Instance) -> Failure | None:
    """What is wrong with an instance: why its stop or delete was refused, or else why it failed."""
    refused = instance.pending.refused if instance.phase in ENDING else None
    return refused or instance.failure


def _is_without_effect(instance: Instance) -> bool:
    """Whether the last observation began after the last call ended and shows no effect of it."""
    seen, sent_at = instance.observation, instance.pending.sent_at
    if sent_at is None or seen.sighted_at is None or seen.sighting is None:
        return False
    effects = _EFFECTS.get(instance.goal, frozenset())
    return seen.sighting not in effects and seen.sighted_at > _ended_at(instance, sent_at)


def _ended_at(instance: Instance, sent_at: datetime) -> datetime:
    return sent_at + ANSWER_WITHIN if instance.pending.ended_at is None else instance.pending.ended_at
