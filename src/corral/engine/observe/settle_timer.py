"""
How long creates have been in doubt, by the monotonic clock of this process.

The record has the time at which the doubt began, but that clock may have been set since, or belong to another machine,
and a wrong time would cause a second create. So a listing counts against a create only if this process has known the
doubt for the whole settle time. A new leader restarts the timer.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.base.clock import Clock
from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.policy import Policy


class SettleTimer:
    """When this process first saw each create in doubt."""

    def __init__(self, clock: Clock, policy: Policy) -> None:
        self._clock = clock
        self._policy = policy
        self._since: dict[tuple[InstanceId, int], float] = {}

    def settled(self, remembered: Iterable[Instance], *, began: float) -> frozenset[InstanceId]:
        """
        The creates that had been in doubt for the settle time when a listing *began*, by the monotonic clock.

        *remembered* are all records that could be in doubt; the timers of others are dropped.
        """
        now = self._clock.monotonic()
        doubts = {
            (i.id, i.create.number): i for i in remembered if i.create_in_doubt and i.create.doubted_at is not None
        }
        self._since = {doubt: self._since.get(doubt, now) for doubt in doubts}
        return frozenset(i.id for doubt, i in doubts.items() if began - self._since[doubt] >= self._needed_seconds(i))

    def _needed_seconds(self, instance: Instance) -> float:
        return self._policy.settle_time(create_ended=instance.create.ended).total_seconds()
