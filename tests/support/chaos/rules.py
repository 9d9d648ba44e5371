"""Rules: what may be done to the installation, how likely each is in every tick, and when each strikes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from support.chaos.http import Http
from support.chaos.installation import CLOCK, Installation
from support.chaos.report import Report
from support.chaos.users import Asked

TICK_SECONDS = 3.0
LAST_STRIKE = 0.8
"""A rule that chance has left out strikes once, before this share of the run is over."""


@dataclass(kw_only=True)
class Field:
    """What rules act upon."""

    installation: Installation
    http: Http
    asked: Asked
    report: Report
    dice: random.Random
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the attack ends; spells end with it."""
    database: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a rule that has the database in its hands; the others of the kind do not strike meanwhile."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a rule that ends and starts processes."""
    restoring: asyncio.Lock = field(default_factory=asyncio.Lock)
    ends_at: float = 0.0
    living_at_restore: set[str] = field(default_factory=set[str])
    """Provider ids of the machines that lived when an export was restored."""
    restored_seq: int = 0
    """The number of the last event of the export that was restored."""

    async def spell(self, shortest: float, longest: float) -> None:
        """Wait for a random time, or until the attack ends."""
        seconds = self.dice.uniform(shortest, longest)
        try:
            async with asyncio.timeout(seconds):
                await self.over.wait()
        except TimeoutError:
            pass

    @property
    def seconds_left(self) -> float:
        return self.ends_at - CLOCK.monotonic()


Strike = Callable[[Field], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of harm."""

    name: str
    chance: float
    """Of striking in each tick."""
    strike: Strike
    """Does the harm, waits for as long as it lasts, and undoes it."""


def plan(rules: Sequence[Rule], ticks: int, dice: random.Random) -> Mapping[int, list[Rule]]:
    """Which rules strike in which tick; each at least once."""
    planned: dict[int, list[Rule]] = {tick: [] for tick in range(ticks)}
    for rule in rules:
        struck = [tick for tick in range(ticks) if dice.random() < rule.chance]
        for tick in struck or [dice.randrange(max(1, int(ticks * LAST_STRIKE)))]:
            planned[tick].append(rule)
    return planned


async def strike_all(field: Field, rules: Sequence[Rule], seconds: float) -> None:
    """Let the rules strike as planned, then end what still lasts."""
    ends_at = field.ends_at = CLOCK.monotonic() + seconds
    lasting: list[asyncio.Task[None]] = []
    for tick, due in plan(rules, max(1, int(seconds / TICK_SECONDS)), field.dice).items():
        starts_at = ends_at - seconds + tick * TICK_SECONDS
        await CLOCK.sleep(max(0.0, starts_at - CLOCK.monotonic()))
        lasting += [asyncio.create_task(_strike(field, rule)) for rule in due]
    await CLOCK.sleep(max(0.0, ends_at - CLOCK.monotonic()))
    field.over.set()
    await asyncio.gather(*lasting)


async def _strike(field: Field, rule: Rule) -> None:
    field.report.strikes[rule.name] += 1
    try:
        await rule.strike(field)
    except Exception as error:  # noqa: BLE001  # a rule that fails is trouble of the run, and not its end
        field.report.trouble.append(f"rule {rule.name}: {error!r}")
