"""The routes of instances over a simulated provider, both reached by real HTTP; time is stepped, and no job is run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.domain.instance import InstanceId, ProviderId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.provider_names import ProviderName, provider_name
from corral.domain.observation.sighting import Sighting
from corral.outbound.provider_hosts import ProviderHosts
from corral.outbound.provider_logs import ProviderLogs
from corral.store.session.database import Database
from novitasim.testing import Simulated, start_simulator
from support.clock.clocks import SteppedClock
from support.engines.runtime import INSTALLATION
from support.http.served_api import ServedApi, opened

LISTING = "/api/instances/comprehensive"
HONG_KONG, PRODUCT = "cn-hongkong-1", "4090.16c62g.os"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApiWithProvider:
    """A served API and the provider's account."""

    api: ServedApi
    sim: Simulated

    async def list(self, **options: str) -> dict[str, Any]:
        answer = await self.api.service.ask("GET", LISTING, params=options)
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json
        return found

    async def foreign(self, name: str = "foreign-instance", **fields: object) -> str:
        return await self.sim.create(name, **{"clusterId": HONG_KONG, "productId": PRODUCT, **fields})

    async def managed(
        self, name: str = "trainer", *, sighting: Sighting = Sighting.BOOTING, **fields: Any
    ) -> tuple[str, str]:
        """An instance of ours that the provider has: our id and the provider's."""
        made = (await self.api.request_create(name=name, gpuNum=1)).json
        ours, product_id = str(made["instanceId"]), str(made["productId"])
        origin = ProviderName(installation=INSTALLATION, instance_id=InstanceId(ours), attempt=1)
        theirs = await self.sim.create(provider_name(origin), clusterId=HONG_KONG, productId=product_id)
        clock = self.api.env.clock
        given: dict[str, Any] = {
            "create": {"number": 1},
            "phase": Phase.STARTING,
            "observation": {"sighting": sighting, "sighted_at": clock.now()},
            "provider_id": ProviderId(theirs),
        }
        await self.api.change(ours, **given | fields)
        return ours, theirs

    def pages(self) -> int:
        """How often a page of the list was read."""
        return int(self.sim.calls()["endpoints"].get("list", {}).get("total", 0))


@asynccontextmanager
async def staged(database: Database, **choices: Any) -> AsyncGenerator[ServedApiWithProvider]:
    async with (
        start_simulator() as sim,
        HttpExchange(
            base_url=sim.base_url, api_key=SecretStr("key"), timeout_seconds=5, clock=SteppedClock()
        ) as exchange,
        ProviderLogs.open(ProviderHosts(sim.base_url)) as logs,
        opened(database, cloud=NovitaCloud(exchange), logs=logs, **choices) as api,
    ):
        sim.set_stock(PRODUCT, HONG_KONG, 500)
        yield ServedApiWithProvider(api=api, sim=sim)
