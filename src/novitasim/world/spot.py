"""
How a spot instance loses its place: notice, reclaim, end. And the other ways in which the world harms an instance.

Only the order of the spot statuses and the meaning of their fields are assumed; how long each takes, where it ends and
what the published time means are settings. A tenure that lies ahead is part of the instance's future like any other:
a stop or a delete cancels it.
"""

from __future__ import annotations

import dataclasses
from random import Random

from novitasim.settings import Settings
from novitasim.world import timeline
from novitasim.world.instance import NEVER, Failure, Instance
from novitasim.world.timeline import MachineShare, SpotStatus, SpotStep, Status

# From reclaiming to terminated; short, because the machine is already someone else's.
_RECLAIM_SECONDS = 2.0

_LEAVING = frozenset({Status.TO_REMOVE, Status.REMOVING, Status.REMOVED})


def past(spot: tuple[SpotStep, ...], now: float) -> tuple[SpotStep, ...]:
    """What has happened of a tenure by *now*."""
    return tuple(step for step in spot if step.at <= now)


def called_off(spot: tuple[SpotStep, ...], now: float) -> tuple[SpotStep, ...]:
    """The tenure of an instance that leaves its machine by itself: a notice not yet carried out is void."""
    happened = past(spot, now)
    if any(step.status is SpotStatus.RECLAIMING for step in happened):
        return happened
    return tuple(step for step in happened if step.status is SpotStatus.RUNNING)


def begin(instance: Instance, settings: Settings, dice: Random) -> Instance:
    """A fresh tenure for a spot instance that is going to run; the settings may foresee its end."""
    last = instance.course[-1]
    if instance.order.billing_mode != "spot" or last.status is not Status.RUNNING:
        return instance
    fresh = dataclasses.replace(instance, spot=(SpotStep(instance.course[0].at, SpotStatus.RUNNING),))
    lasts = settings.spot_life_seconds.draw(dice)
    return notice(fresh, settings, last.at + lasts) if lasts else fresh


def notice(instance: Instance, settings: Settings, now: float, *, seconds: float | None = None) -> Instance:
    """Told at *now* that the machine is wanted back."""
    wait = settings.spot_notice_seconds if seconds is None else seconds
    return _leave(instance, settings, told_at=now, reclaimed_at=now + wait)


def resume(before: Instance, after: Instance, settings: Settings, now: float) -> Instance:
    """Carry a notice over to a new course on the same machine: a restart does not win it back."""
    told = before.spot_deadline()
    if told is None or not told[0] <= now < told[1]:
        return after
    return _leave(after, settings, told_at=told[0], reclaimed_at=told[1])


def reclaim(instance: Instance, settings: Settings, now: float) -> Instance:
    """The machine is taken back at once, with whatever notice there was."""
    told = instance.spot_deadline()
    return _leave(instance, settings, told_at=min(told[0], now) if told else now, reclaimed_at=now)


def ended(instance: Instance, now: float) -> bool:
    """Its machine was taken back."""
    step = instance.spot_step(now)
    return step is not None and step.status is SpotStatus.TERMINATED


def fail(instance: Instance, now: float, message: str) -> Instance:
    """A statusError appears; what was going to happen does not."""
    step = instance.step(now)
    stuck = timeline.Step(now, step.status, step.claim)
    return dataclasses.replace(
        instance,
        course=(*timeline.past(instance.course, now), stuck),
        spot=called_off(instance.spot, now),
        failure=Failure(at=now, state="failed", message=message),
    )


def freeze(instance: Instance, now: float, seconds: float) -> Instance:
    """Frozen for a while, then as it was; what was going to happen meanwhile does not."""
    before = instance.step(now)
    frozen = timeline.Step(now, Status.FREEZING, before.claim)
    again = timeline.Step(now + seconds, before.status, before.claim)
    return dataclasses.replace(instance, course=(*timeline.past(instance.course, now), frozen, again))


def vanish(instance: Instance, now: float, *, seconds: float = 0.0) -> Instance:
    """The provider denies the instance: for *seconds*, still billing it, or for good and without a bill."""
    return dataclasses.replace(instance, hidden_from=now, hidden_until=now + seconds if seconds else NEVER)


def _leave(instance: Instance, settings: Settings, *, told_at: float, reclaimed_at: float) -> Instance:
    planned = instance.spot_deadline()
    until = planned[1] if planned and planned[1] > told_at else NEVER  # an earlier plan gives way to this one
    kept = tuple(step for step in instance.course if step.at <= reclaimed_at and step.at < until)
    if kept[-1].claim is MachineShare.NOTHING or kept[-1].status in _LEAVING:
        return instance  # it will have left by itself
    terminated_at = reclaimed_at + _RECLAIM_SECONDS
    spot = (
        *(step for step in past(instance.spot, told_at) if step.status is SpotStatus.RUNNING),
        SpotStep(told_at, SpotStatus.NOTIFIED),
        SpotStep(reclaimed_at, SpotStatus.RECLAIMING),
        SpotStep(terminated_at, SpotStatus.TERMINATED),
    )
    end = timeline.remove if settings.spot_end == "removed" else timeline.stop
    future = end(reclaimed_at, _RECLAIM_SECONDS, kept[-1].claim)
    return dataclasses.replace(instance, spot=spot, course=(*kept, *future), failure=instance.failed_by(reclaimed_at))
