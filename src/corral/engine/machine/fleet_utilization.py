"""
How busy every running machine is, as last measured.

An answer never waits for the provider: it has what is known. Each request for it wakes one task, which reads what is
due within the share of the rate limit for measurements, oldest first. Without requests nothing is read. Every process
knows what it read itself; all of them together stay within the share.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from corral.base.clock import Clock
from corral.cache.cache import Cache
from corral.cloud.port import Cloud
from corral.domain.errors import CloudError, CloudTransientError, StoreError
from corral.domain.instance import ProviderId
from corral.domain.machine.utilization import Utilization, every_seconds, period
from corral.store.session.database import Database
from corral.store.tables.fleet import counts
from corral.store.tables.fleet.counts import RunningMachine

LOOK_BACK: Final = timedelta(minutes=5)
"""Of one read: the newest value may be some minutes old, and where there is none it is unknown."""
MOST_AT_ONCE: Final = 4
"""Reads at the same time. Fewer takes longer after a start with many machines; more, and one page makes a burst."""
MACHINES_SECONDS: Final = 2.0
"""How long the list of running machines is reused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetUtilization:
    """The running machines, newest first, and what was last measured of each; None: nothing yet."""

    machines: Sequence[tuple[RunningMachine, Utilization | None]]
    every_seconds: int
    """How often each is read while answers are asked for."""


class FleetUtilizationQueries:
    """Knows how busy machines are; one for the process. `run` it in the background."""

    def __init__(
        self, cloud: Cloud, database: Database, clock: Clock, *, share: float, calls_per_minute: Callable[[], int]
    ) -> None:
        self._cloud = cloud
        self._database = database
        self._clock = clock
        self._share = share
        self._calls_per_minute = calls_per_minute
        self._running: Cache[list[RunningMachine]] = Cache(ttl_seconds=MACHINES_SECONDS, most_entries=1, clock=clock)
        self._known: dict[str, Utilization] = {}
        """By the provider's id."""
        self._read_at: dict[str, float] = {}
        """When each was last read, by the monotonic clock."""
        self._asked = asyncio.Event()

    async def current(self) -> FleetUtilization:
        """What is known now; wakes `run`."""
        machines = await self._machines()
        self._asked.set()
        known = [(machine, self._known.get(machine.provider_id)) for machine in machines]
        return FleetUtilization(machines=known, every_seconds=self._every_seconds(len(machines)))

    async def run(self) -> None:
        """Read what is due whenever an answer was asked for, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self.read_due()

    async def read_due(self) -> None:
        """Read each machine that is due, the longest unread first, until the share of the rate limit is used up."""
        try:
            machines = await self._machines()
        except StoreError:
            return
        running = {machine.provider_id for machine in machines}
        self._known = {one: found for one, found in self._known.items() if one in running}
        self._read_at = {one: at for one, at in self._read_at.items() if one in running}
        due_since = self._clock.monotonic() - self._every_seconds(len(machines))
        last = {one: self._read_at.get(one, -math.inf) for one in running}
        waiting = sorted((one for one in running if last[one] <= due_since), key=last.__getitem__, reverse=True)
        await asyncio.gather(*(self._read_some(waiting) for _ in range(MOST_AT_ONCE)))

    async def _read_some(self, waiting: list[ProviderId]) -> None:
        """Read from the end of *waiting* until it is empty; a used-up share or a failing provider empties it."""
        while waiting:
            provider_id = waiting.pop()
            try:
                found = await self._cloud.utilization(provider_id, period(self._clock.now(), LOOK_BACK))
            except CloudTransientError:
                waiting.clear()
                return
            except CloudError:
                found = self._known.get(provider_id)
            self._read_at[provider_id] = self._clock.monotonic()
            self._known[provider_id] = found or Utilization()

    def _every_seconds(self, machines: int) -> int:
        return every_seconds(machines, calls_per_minute=self._calls_per_minute(), share=self._share)

    async def _machines(self) -> list[RunningMachine]:
        async def load() -> list[RunningMachine]:
            async with self._database.connection() as connection:
                return await counts.running_machines(connection)

        return await self._running.get("all", load)
