"""
What follows from a lease: a notice, its cancellation, the end, or a scheduled start. Pure.

One notice is pending at a time. It is given at least the grace period before the end; it ends the instance only if its
cause still holds then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor
from typing import Final

from corral.domain.instance import Instance
from corral.domain.leases.due import is_given_up, is_proven, look_again_at, most_late
from corral.domain.leases.ends import fixed_ends, fixed_reason, grace_of, not_before, precedence, runs_since
from corral.domain.leases.idle import Activity, IdleJudgement, judge_idle
from corral.domain.leases.lease import EndAction, EndCause, IdleRule, IdleSummary, LeaseState, Notice, Signal
from corral.domain.leases.outlook import next_start
from corral.domain.leases.samples import IdleSample
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import OperationKind
from corral.domain.records import replace

LATE: Final = timedelta(minutes=2)
"""How long after its time a notice still ends an instance, if the end does not wait for a measurement. Later, Corral
was down or its database was restored, and no user could extend the lease: the notice is given again. Shorter, and a
busy moment delays ends by a grace period; longer, and an outage of a few minutes ends an instance at once. A time that
is as far in the future was recorded before the clock was set back."""
QUIET_SHOWN: Final = 0.25
"""The part of the window that must be quiet before the views show an expected end. Less, and an instance that is busy
from time to time is recorded with each pause; more, and the countdown begins later."""
_ENDS: Final = {EndAction.STOP: OperationKind.STOP, EndAction.DELETE: OperationKind.DELETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDecision:
    """What follows from a lease now."""

    state: LeaseState | None
    """To be recorded; the instance's own if nothing changes."""
    command: OperationKind | None = None
    """STOP, DELETE or START, to be recorded as any other command."""
    cause: EndCause | None = None
    """Of the notice that is given or cancelled, or of the end."""
    because: str = ""
    """Why, for a person; empty if neither a notice nor a command follows."""
    wake_at: datetime | None = None
    """When something may follow without a new sample; None: never."""


def needs_samples(instance: Instance) -> bool:
    """Whether the judgement on *instance* depends on measurements."""
    rule = _idle_rule(instance)
    return rule is not None and not rule.signals.isdisjoint({Signal.GPU, Signal.CPU})


def judge(instance: Instance, samples: Iterable[IdleSample], now: datetime) -> LeaseDecision:
    """What follows from the lease of *instance*; *samples* are its measurements within the window of its idle rule."""
    if instance.lease is None:
        return LeaseDecision(state=None)
    state = _without_future(instance.lease, now)
    judgement = _judgement(instance, state, samples, now)
    if judgement is not None and state.lease.idle is not None and needs_samples(instance):
        state = _summarized(state, state.lease.idle, judgement, now)
    if state.notice is not None:
        return _pending(instance, state, state.notice, judgement, now)
    if runs_since(instance) is None:
        return _down(instance, state, now)
    return _running(instance, state, judgement, now)


def _running(instance: Instance, state: LeaseState, judgement: IdleJudgement | None, now: datetime) -> LeaseDecision:
    """Give a notice if an end is at most the grace period away; the earliest, if there are several."""
    lease = state.lease
    ends = fixed_ends(instance, state, now)
    if judgement is not None and judgement.activity is Activity.IDLE:
        ends.append((not_before(state, now + lease.grace), EndCause.IDLE))
    known = [(end, grace_of(lease, cause), cause) for end, cause in ends]
    near = [(max(end, now + grace), cause) for end, grace, cause in known if end - grace <= now]
    if not near:
        times = [end - grace for end, grace, _ in known]
        return LeaseDecision(state=state, wake_at=min([*times, *_unused_at(instance, state, now)], default=None))
    ends_at, cause = min(near, key=precedence)
    if cause is EndCause.IDLE and judgement is not None:
        reason = judgement.reason
    else:
        reason = fixed_reason(state, cause, {cause: end for end, _, cause in known}[cause])
    notice = Notice(cause=cause, reason=reason, given_at=now, ends_at=ends_at)
    noticed = replace(state, notice=notice)
    return LeaseDecision(state=noticed, cause=cause, because=_because(notice), wake_at=ends_at)


def _pending(
    instance: Instance, state: LeaseState, notice: Notice, judgement: IdleJudgement | None, now: datetime
) -> LeaseDecision:
    """Cancel a notice whose cause does not hold any more; end the instance if it is due, unless that is long ago."""
    why_not = _why_not(instance, state, notice, judgement, now)
    if why_not is not None:
        return _cancelled(state, notice, why_not, now)
    if now < notice.ends_at:
        return LeaseDecision(state=state, wake_at=notice.ends_at)
    if now - notice.ends_at > LATE and notice.awaited_since is None:
        again = replace(notice, given_at=now, ends_at=now + grace_of(state.lease, notice.cause))
        state = replace(state, notice=again)
        return LeaseDecision(state=state, cause=again.cause, because=_because(again), wake_at=again.ends_at)
    rule = state.lease.idle if notice.cause is EndCause.IDLE else None
    if rule is not None and judgement is not None and not is_proven(rule, notice, judgement, now):
        if is_given_up(notice, now):
            return _cancelled(state, notice, judgement.reason, now)
        awaited = replace(notice, awaited_since=notice.awaited_since or now)
        state = state if awaited == notice else replace(state, notice=awaited)
        return LeaseDecision(state=state, wake_at=look_again_at(rule, awaited, now))
    action = EndAction.STOP if notice.cause is EndCause.SCHEDULE else state.lease.on_end
    because = _because(notice)
    return LeaseDecision(state=state, command=_ENDS[action], cause=notice.cause, because=because, wake_at=now)


def _why_not(
    instance: Instance, state: LeaseState, notice: Notice, judgement: IdleJudgement | None, now: datetime
) -> str | None:
    """Why *notice* does not hold any more; None if it does."""
    if max(notice.given_at, notice.awaited_since or notice.given_at) > now + LATE:
        return "the clock was set back since"
    if notice.cause is not EndCause.IDLE:
        ends = {cause: end for end, cause in fixed_ends(instance, state, now)}
        end = ends.get(notice.cause)
        if runs_since(instance) is None:
            return f"it is {instance.phase}"
        is_due = end is not None and end <= max(notice.ends_at, now)
        return None if is_due else "it is not to end then any more"
    if judgement is None:
        return f"it is {instance.phase}"
    return judgement.reason if judgement.activity is Activity.ACTIVE else None


def _cancelled(state: LeaseState, notice: Notice, because: str, now: datetime) -> LeaseDecision:
    return LeaseDecision(state=replace(state, notice=None), cause=notice.cause, because=because, wake_at=now)


def _down(instance: Instance, state: LeaseState, now: datetime) -> LeaseDecision:
    """Start an instance that its lease stopped, if a start of the schedule is due."""
    start, schedule = next_start(instance, now), state.lease.schedule
    if start is None or start > now or instance.phase is not Phase.EXITED or schedule is None:
        return LeaseDecision(state=state, wake_at=start)
    because = f"schedule {schedule.start} {schedule.timezone}"
    return LeaseDecision(state=state, command=OperationKind.START, because=because, wake_at=now)


def _without_future(state: LeaseState, now: datetime) -> LeaseState:
    """*state* with *now* in place of later times: they were recorded before the clock was set back."""
    used, scheduled = (
        now if at is not None and at > now + LATE else at for at in (state.last_used_at, state.scheduled_at)
    )
    is_same = (used, scheduled) == (state.last_used_at, state.scheduled_at)
    return state if is_same else replace(state, last_used_at=used, scheduled_at=scheduled)


def _idle_rule(instance: Instance) -> IdleRule | None:
    """The idle rule, if it applies to *instance* now: only while it is ready."""
    is_ready = instance.phase is Phase.READY and instance.goal is Goal.RUNNING and instance.provider_id is not None
    return instance.lease.lease.idle if is_ready and instance.lease is not None else None


def _judgement(
    instance: Instance, state: LeaseState, samples: Iterable[IdleSample], now: datetime
) -> IdleJudgement | None:
    rule, since = _idle_rule(instance), runs_since(instance)
    if rule is None or since is None:
        return None
    late = most_late(state.notice)
    return judge_idle(rule, samples, now=now, ready_at=since, last_used_at=state.last_used_at, most_late=late)


def _unused_at(instance: Instance, state: LeaseState, now: datetime) -> list[datetime]:
    """When a rule that needs no measurements next finds it idle, or may give notice after an extension."""
    rule, since = _idle_rule(instance), runs_since(instance)
    if rule is None or since is None or needs_samples(instance):
        return []
    used_at = max(since, state.last_used_at or since)
    return [max(used_at + rule.after, not_before(state, now) - state.lease.grace)]


def _summarized(state: LeaseState, rule: IdleRule, judgement: IdleJudgement, now: datetime) -> LeaseState:
    """
    *state* with *judgement* for the views; *state* itself if they show no difference.

    A quiet time is shown once it is a part of the window, so that not every pause of a busy instance is recorded.
    While all of the window is quiet its beginning moves on; the quiet time began when it was first seen.
    """
    before, since = state.idle, judgement.quiet_since
    if since is None or now - since < rule.after * QUIET_SHOWN:
        return state if before is None else replace(state, idle=None)
    if before is not None and since <= now - rule.after:
        since = min(before.quiet_since, since)
    seen = IdleSummary(quiet_since=since, gpu=_shown(judgement.gpu), cpu=_shown(judgement.cpu), judged_at=now)
    is_same = before is not None and replace(before, judged_at=now) == seen
    return state if is_same else replace(state, idle=seen)


def _shown(value: float | None) -> float | None:
    """A percentage as it is shown, so that a record is not written for a difference that is not."""
    return None if value is None else float(floor(value))


def _because(notice: Notice) -> str:
    return f"idle: {notice.reason}" if notice.cause is EndCause.IDLE else notice.reason
