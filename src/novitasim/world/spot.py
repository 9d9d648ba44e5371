"""
How a spot instance loses its place: notice, reclaim, end. And the other ways in which the world harms an instance.

Only the order of the spot statuses and the meaning of their fields are assumed; how long each takes, where it ends and
what the published time means are settings. A planned reclaim is part of the instance's future like any other step:
a stop or a delete cancels it.
"""

from __future__ import annotations

import dataclasses
from random import Random

from novitasim.settings import Settings
from novitasim.world import timeline
from novitasim.world.instance import NEVER, Failure, Instance
from novitasim.world.timeline import MachineShare, SpotStatus, SpotStep, Status

# From reclaiming to terminated; short, because the machine is already given to another customer.
_RECLAIM_SECONDS = 2.0

_LEAVING = frozenset({Status.TO_REMOVE, Status.REMOVING, Status.REMOVED})


def past(spot: tuple[SpotStep, ...], now: float) -> tuple[SpotStep, ...]:
    """The spot steps that have happened by *now*."""
    return tuple(step for step in spot if step.at <= now)


def called_off(spot: tuple[SpotStep, ...], now: float) -> tuple[SpotStep, ...]:
    """The spot steps of an instance that leaves its machine by itself: a pending notice is void."""
    happened = past(spot, now)
    if any(step.status is SpotStatus.RECLAIMING for step in happened):
        return happened
    return tuple(step for step in happened if step.status is SpotStatus.RUNNING)


def begin(instance: Instance, settings: Settings, dice: Random) -> Instance:
    """New spot steps for a spot instance that is about to run; the settings may plan its end."""
    last = instance.course[-1]
    if instance.order.billing_mode != "spot" or last.status is not Status.RUNNING:
        return instance
    fresh = dataclasses.replace(instance, spot=(SpotStep(instance.course[0].at, SpotStatus.RUNNING),))
    lasts = settings.spot_life_seconds.draw(dice)
    return notice(fresh, settings, last.at + lasts) if lasts else fresh


def notice(instance: Instance, settings: Settings, now: float, *, seconds: float | None = None) -> Instance:
    """The provider gives notice at *now* that it reclaims the machine."""
    wait = settings.spot_notice_seconds if seconds is None else seconds
    return _leave(instance, settings, noticed_at=now, reclaimed_at=now + wait)


def resume(before: Instance, after: Instance, settings: Settings, now: float) -> Instance:
    """Keep a notice on the same machine after a restart."""
    deadline = before.spot_deadline()
    if deadline is None or not deadline[0] <= now < deadline[1]:
        return after
    return _leave(after, settings, noticed_at=deadline[0], reclaimed_at=deadline[1])


def reclaim(instance: Instance, settings: Settings, now: float) -> Instance:
    """The machine is reclaimed at once, with any notice there was."""
    deadline = instance.spot_deadline()
    return _leave(instance, settings, noticed_at=min(deadline[0], now) if deadline else now, reclaimed_at=now)


def ended(instance: Instance, now: float) -> bool:
    """Whether its machine was reclaimed."""
    step = instance.spot_step(now)
    return step is not None and step.status is SpotStatus.TERMINATED


def fail(instance: Instance, now: float, message: str) -> Instance:
    """A statusError appears; the planned steps are cancelled, and it stays as it is."""
    return dataclasses.replace(
        instance,
        course=timeline.past(instance.course, now),
        spot=called_off(instance.spot, now),
        failure=Failure(at=now, state="failed", message=message),
    )


def freeze(instance: Instance, now: float, seconds: float) -> Instance:
    """Frozen for *seconds*, then as before; the steps planned for that time are cancelled."""
    before = instance.step(now)
    frozen = timeline.Step(now, Status.FREEZING, before.claim)
    again = timeline.Step(now + seconds, before.status, before.claim)
    return dataclasses.replace(instance, course=(*timeline.past(instance.course, now), frozen, again))


def vanish(instance: Instance, now: float, *, seconds: float = 0.0) -> Instance:
    """The provider hides the instance: for *seconds* while billing it, or permanently without billing."""
    return dataclasses.replace(instance, hidden_from=now, hidden_until=now + seconds if seconds else NEVER)


def _leave(instance: Instance, settings: Settings, *, noticed_at: float, reclaimed_at: float) -> Instance:
    planned = instance.spot_deadline()
    until = planned[1] if planned and planned[1] > noticed_at else NEVER  # an earlier plan gives way to this one
    kept = tuple(step for step in instance.course if step.at <= reclaimed_at and step.at < until)
    if kept[-1].claim is MachineShare.NOTHING or kept[-1].status in _LEAVING:
        return instance  # it will have left by itself
    terminated_at = reclaimed_at + _RECLAIM_SECONDS
    spot = (
        *(step for step in past(instance.spot, noticed_at) if step.status is SpotStatus.RUNNING),
        SpotStep(noticed_at, SpotStatus.NOTIFIED),
        SpotStep(reclaimed_at, SpotStatus.RECLAIMING),
        SpotStep(terminated_at, SpotStatus.TERMINATED),
    )
    end = timeline.remove if settings.spot_end == "removed" else timeline.stop
    future = end(reclaimed_at, _RECLAIM_SECONDS, kept[-1].claim)
    return dataclasses.replace(instance, spot=spot, course=(*kept, *future), failure=instance.failed_by(reclaimed_at))
