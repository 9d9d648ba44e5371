"""
How long the data of a stopped instance is kept, and what the instance is when that is over. Pure.

`keepDataDay` is documented; when it begins, how `releaseDataAt` is written and what a purge leaves are settings.
"""

from __future__ import annotations

import dataclasses

from novitasim.settings import Settings
from novitasim.world.instance import NEVER, Instance
from novitasim.world.timeline import MachineShare, Status, Step

DAY_SECONDS = 86_400.0


def planned(instance: Instance, settings: Settings, now: float) -> Instance:
    """The instance with the end of its data planned if its course ends stopped; without one otherwise."""
    if instance.course[-1].status is Status.REMOVED and is_purged(instance, now):
        return instance
    course = tuple(step for step in instance.course if step.at != instance.data_until)
    if course[-1].status is not Status.EXITED:
        return _changed(instance, course, NEVER)
    if is_purged(instance, now):
        return instance
    if not settings.keep_data_days:
        return _changed(instance, course, NEVER)
    until = max(course[-1].at + settings.keep_data_days * DAY_SECONDS, now)
    if settings.data_purged == "removed":
        course = (*course, Step(until, Status.REMOVED, MachineShare.NOTHING))
    return _changed(instance, course, until)


def is_purged(instance: Instance, now: float) -> bool:
    """Whether its data is gone."""
    return instance.data_until <= now


def _changed(instance: Instance, course: tuple[Step, ...], until: float) -> Instance:
    if (instance.course, instance.data_until) == (course, until):
        return instance
    return dataclasses.replace(instance, course=course, data_until=until)
