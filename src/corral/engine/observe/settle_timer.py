"""
How long creates have been in doubt, by this process's own watch.

A doubt carries the time at which it arose, but that was told by a clock that may have been set since, or by another
machine's. A second create is what a wrong time would cost; so a listing speaks against the first only when this process
itself has seen the doubt for the whole settle time. One that is new to the task begins to count anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.base.clock import Clock
from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.decision import Policy


class SettleTimer:
    """Since when this process has known of each doubt."""

    def __init__(self, clock: Clock, policy: Policy) -> None:
        self._clock = clock
        self._policy = policy
        self._since: dict[tuple[InstanceId, int], float] = {}

    def settled(self, remembered: Iterable[Instance], *, began: float) -> frozenset[InstanceId]:
        """
        Those whose doubt had been known for the settle time when a listing was *began*, by the monotonic clock.

        *remembered* are all that could be in doubt; what is not among them any more is forgotten.
        """
        now = self._clock.monotonic()
        doubts = {
            (i.id, i.create.number): i for i in remembered if i.create_in_doubt and i.create.doubted_at is not None
        }
        self._since = {doubt: self._since.get(doubt, now) for doubt in doubts}
        return frozenset(i.id for doubt, i in doubts.items() if began - self._since[doubt] >= self._needed_seconds(i))

    def _needed_seconds(self, instance: Instance) -> float:
        return self._policy.settle_time(create_ended=instance.create.ended).total_seconds()
