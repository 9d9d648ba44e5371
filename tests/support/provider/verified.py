"""A simulated account that `corral verify` reads, by a clock that runs ahead instead of waiting."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from corral.app import verification
from corral.base.settings.configuration import load
from corral.base.settings.settings import Settings
from novitasim import settings as simulator_settings
from novitasim.testing import Simulated, start_simulator

KEY = "sk_planted_key_of_the_account"
PLANTED = ("planted-env-value", "plantedword")
"""Values of variables of the account's machines; the second is a word that a report might show."""
HOURS_OLD = 8.0
"""How long the machines of the account have been there: long enough for a bill."""


class AccountClock:
    """The simulator's clock; a sleep moves it."""

    def __init__(self, sim: Simulated) -> None:
        self._sim = sim

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._sim.simulator.clock.now(), UTC)

    def wall(self) -> datetime:
        return self.now()

    def monotonic(self) -> float:
        return self._sim.simulator.clock.now()

    async def sleep(self, seconds: float) -> None:
        self._sim.advance(seconds)


@dataclass
class VerifiedAccount:
    """The account, what verify said on the way, and its data directory."""

    sim: Simulated
    data_dir: Path
    _defaults: simulator_settings.Settings
    said: list[str] = field(default_factory=list)

    async def build(self, quirks: Mapping[str, object], *, is_spot: bool = False) -> None:
        """Start over, with these settings, an empty data directory and two machines that have run for hours."""
        self.sim.simulator.world.settings = self._defaults
        self.sim.simulator.reset()
        for left in (self.data_dir / "verify").glob("*"):
            left.unlink()
        self.sim.set(**{name: value for name, value in quirks.items() if name != "odd_answers"})
        mode = {"billingMode": "spot"} if is_spot else {}
        for name in ("worker-a", "worker-b"):
            await self.sim.create(name, envs=[{"key": "TOKEN", "value": value} for value in PLANTED], **mode)
            self.sim.advance(5)
        self.sim.advance(HOURS_OLD * 3600)
        self.sim.set(odd_answers=quirks.get("odd_answers", ""))

    async def verify(
        self, *, spend_usd: float | None = None, clock: AccountClock | None = None, agrees: bool = True
    ) -> dict[str, Any]:
        """The report; with *spend_usd*, on a trial machine as well. No report shows anything of the account."""
        report = await verification.verify(
            self._settings(),
            clock or AccountClock(self.sim),
            spend_usd=spend_usd,
            confirm=lambda _offer: agrees,
            on_progress=self.said.append,
        )
        shown = msgspec.json.encode(report).decode()
        assert [secret for secret in self.secrets() if secret in shown] == []
        return report

    def secrets(self) -> set[str]:
        """The key, and whatever belongs to the account: names, ids, addresses, passwords, values."""
        world = self.sim.world
        found = {KEY, "worker-a", "worker-b", *PLANTED, *(each.password for each in world.auths.values())}
        for instance in world.instances.values():
            found |= {instance.id, instance.order.name, world.password_of(instance)}
        return found

    async def cleanup(self, mark: str | None = None) -> tuple[int, list[str]]:
        """Delete what a trial left behind."""
        return await verification.cleanup(
            self._settings(), AccountClock(self.sim), mark=mark, on_progress=self.said.append
        )

    def _settings(self) -> Settings:
        given = {
            "NOVITA_API_KEY": KEY,
            "NOVITA_API_BASE_URL": self.sim.base_url,
            "CORRAL_DATA_DIR": str(self.data_dir),
            "NOVITA_RATE_LIMIT_PER_MINUTE": "100000",
        }
        return load(given).settings


@asynccontextmanager
async def verified_account(data_dir: Path) -> AsyncGenerator[VerifiedAccount]:
    """An account for many verifications, one after the other."""
    async with start_simulator(keys=frozenset({KEY})) as sim:
        yield VerifiedAccount(sim, data_dir, sim.world.settings)


def results(report: dict[str, Any]) -> dict[str, str]:
    """What each check found."""
    return {finding["check"]: finding["result"] for finding in report["findings"]}
