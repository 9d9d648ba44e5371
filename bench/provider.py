"""The provider of a run: the simulator, as a process of its own, and what it knows of us."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from bench import servers
from bench.servers import Served
from bench.wire import Line
from corral.base.clock import Clock

API_PATH = "/gpu-instance/openapi"
ONE_REQUEST = r"^corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+$"
"""Groups names in the ledger: every attempt for one instance of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the provider saw of a run."""

    ran_at: dict[str, float]
    """When each instance first ran, by its id there, in unix seconds."""
    asked_at: dict[str, float]
    """When each was created."""
    billed_twice: int
    """Instances of ours that two machines were ever billed for at one time."""

    def without(self, ids: Collection[str]) -> Account:
        """The same, had these instances not been."""
        return replace(
            self,
            ran_at={one: at for one, at in self.ran_at.items() if one not in ids},
            asked_at={one: at for one, at in self.asked_at.items() if one not in ids},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A simulator that answers."""

    served: Served

    @property
    def settings(self) -> dict[str, str]:
        """What makes a Corral use it, as fast as it likes."""
        return {
            "NOVITA_API_KEY": "bench",
            "NOVITA_API_BASE_URL": f"http://127.0.0.1:{self.served.port}{API_PATH}",
            "NOVITA_RATE_LIMIT_PER_MINUTE": "100000",
        }

    async def account(self) -> Account:
        """All instances, and the judgement of the ledger."""
        instances = (await self._read("/_sim/state"))["instances"]
        ledger = await self._read(f"/_sim/ledger?pattern={_quoted(ONE_REQUEST)}")
        return Account(
            ran_at={i["id"]: at for i in instances for at, status in reversed(i["course"]) if status == "running"},
            asked_at={i["id"]: i["course"][0][0] for i in instances},
            billed_twice=len(ledger["twice"]),
        )

    async def calls(self) -> dict[str, int]:
        """How often each call was made so far."""
        return {name: counted["total"] for name, counted in (await self.traffic())["endpoints"].items()}

    async def traffic(self) -> Any:
        """All calls so far, by name and outcome, and the busiest minute."""
        return await self._read("/_sim/calls")

    async def machines(self) -> list[Any]:
        """Every instance that is there."""
        found: list[Any] = (await self._read("/_sim/state"))["instances"]
        return [machine for machine in found if machine["status"] != "removed"]

    async def course(self, provider_id: str) -> list[tuple[float, str]]:
        """When an instance came into each of its statuses, in unix seconds; some may lie ahead."""
        found = (await self._read("/_sim/state"))["instances"]
        return next([(at, status) for at, status in one["course"]] for one in found if one["id"] == provider_id)

    async def harm(self, **fault: str) -> None:
        """Add a fault (`novitasim/faults/faults.py`); one without a call is done at once."""
        async with Line(self.served.port) as line:
            answer = await line.ask("POST", "/_sim/fault", msgspec.json.encode(fault))
        if answer.status != 200:
            raise RuntimeError(f"the fault was answered with {answer.status}: {answer.body[:300]!r}")

    async def load(self, **load: object) -> None:
        """Set how busy machines are, and how their samples are (`POST /_sim/load`)."""
        async with Line(self.served.port) as line:
            answer = await line.ask("POST", "/_sim/load", msgspec.json.encode(load))
        if answer.status != 200:
            raise RuntimeError(f"the load was answered with {answer.status}: {answer.body[:300]!r}")

    async def faults_left(self) -> int:
        """How many faults did not happen yet."""
        return len((await self._read("/_sim/fault"))["faults"])

    async def _read(self, path: str) -> Any:
        async with Line(self.served.port) as line:
            return msgspec.json.decode((await line.ask("GET", path)).body)


@asynccontextmanager
async def simulated(
    directory: Path, clock: Clock, *, boot_seconds: float, more: Sequence[str] = ()
) -> AsyncGenerator[Provider]:
    """A provider with enough stock; instances run *boot_seconds* after their creation. *more*: further options."""
    options = ("--boot-seconds", f"{boot_seconds:g}", "--pull-seconds", "0", "--quirk", "stock=1000000", *more)

    def command(port: int) -> list[str]:
        return [sys.executable, "-m", "novitasim", "--port", str(port), *options]

    async with servers.running(command, directory, path="/_sim/state?instances=false", clock=clock) as served:
        yield Provider(served=served)


def _quoted(pattern: str) -> str:
    return "".join(f"%{byte:02X}" for byte in pattern.encode())
