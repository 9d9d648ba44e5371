"""Calls on the service, at whichever API process answers, and on the simulator's control routes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from support.chaos.process import Process

TIMEOUT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an API process said."""

    status: int
    body: Any

    @property
    def is_final(self) -> bool:
        """Asking again under the same key would change nothing."""
        running = self.status == 409 and self.code == "OPERATION_IN_PROGRESS" and "Idempotency" in str(self.body)
        return self.status not in {408, 429} and self.status < 500 and not running

    @property
    def code(self) -> str | None:
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return error.get("code") if isinstance(error, dict) else None


class Http:
    """The APIs of one installation, and its simulator."""

    def __init__(self, client: aiohttp.ClientSession, apis: Sequence[Process], simulator: str) -> None:
        self.client, self.apis, self.simulator = client, apis, simulator

    async def send(self, attempt: int, method: str, path: str, key: str, body: object) -> Answer | None:
        """Ask one API, another with each *attempt*; None without an answer."""
        address = self.apis[attempt % len(self.apis)].address
        try:
            async with self.client.request(
                method, address + path, json=body, headers={"Idempotency-Key": key}
            ) as response:
                return Answer(response.status, await response.json())
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None

    async def get(self, path: str) -> Any:
        """What the first API that answers shows; None if none does."""
        for api in self.apis:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
                async with self.client.get(api.address + path) as response:
                    if response.status == 200:
                        return await response.json()
        return None

    async def instances(self) -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = []
        while True:
            page = await self.get(f"/api/instances?limit=500&offset={len(found)}")
            if page is None:
                return None
            found += page["instances"]
            if len(found) >= page["total"] or not page["instances"]:
                return found

    async def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while page := (await self.get(f"/api/events?limit=500&after={len(found)}") or {}).get("events"):
            found += page
        return found

    async def reported(self) -> set[str]:
        """The provider ids of the machines that the service reports as orphans."""
        shown = await self.get("/api/orphans") or {"orphans": []}
        return {orphan["novitaInstanceId"] for orphan in shown["orphans"]}

    async def machines(self) -> list[dict[str, Any]]:
        """Every machine that exists, as the provider knows it."""
        state = await self.sim("GET", "/_sim/state")
        return [machine for machine in state["instances"] if machine["status"] != "removed"]

    async def sim(self, method: str, path: str, body: object = None, **query: str) -> Any:
        async with self.client.request(method, self.simulator + path, json=body, params=query) as response:
            assert response.status == 200, await response.text()
            return await response.json()
