"""
The simulator inside a test: on a free loopback port, in the test's own event loop, with a stepped clock.

    async with start_simulator(boot_seconds=1, pull_seconds=1) as sim:
        sim.fault("lost_reply", on="create")
        ...                                   # a client at work on sim.base_url
        sim.advance(2)
        assert sim.billed_at_once("corral-.*") <= 1

Everything the handle does is immediate and synchronous; only the provider's calls go over HTTP.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientSession

from novitasim.server.serving import Options, listen
from novitasim.server.simulator import Simulator
from novitasim.world.account import Template
from novitasim.world.billing.ledger import Ledger, at_once
from novitasim.world.instance import Instance
from novitasim.world.timeline import Status
from novitasim.world.world import World

# What a client puts behind the root to reach the provider's v1 calls.
BASE_PATH = "/gpu-instance/openapi"

# The body of a create call that any catalog can serve.
PLAIN: dict[str, object] = {
    "productId": "4090.16c62g",
    "gpuNum": 1,
    "rootfsSize": 60,
    "imageUrl": "docker.io/acme/app:1.2",
    "ports": "8080/http, 22/tcp",
    "clusterId": "us-ca-6",
    "kind": "gpu",
}

_OK = 200

# Whole seconds, so that a test can say what is true after how many.
_TIMES: dict[str, object] = {
    "boot_seconds": 2,
    "pull_seconds": 3,
    "start_seconds": 2,
    "stop_seconds": 2,
    "restart_seconds": 2,
    "remove_seconds": 2,
    "migrate_seconds": 2,
    "reset_seconds": 2,
}


class Simulated:
    """A running simulator, as a test holds it."""

    def __init__(self, simulator: Simulator, root_url: str, session: ClientSession) -> None:
        self.simulator = simulator
        self._session = session
        self.root_url = root_url
        self.base_url = root_url + BASE_PATH

    @property
    def world(self) -> World:
        """The world itself, to look into or to change behind the client's back."""
        return self.simulator.world

    def now(self) -> float:
        """The simulated instant, with everything due having happened."""
        return self.simulator.now()

    def advance(self, seconds: float) -> float:
        """Move time forward; returns the new instant."""
        return self.simulator.advance(seconds)

    def fault(self, fault: str, *, on: str | None = None, **fields: object) -> int:
        """Add a fault (see `faults.Rule` for the fields); returns how many instances it harmed at once."""
        return self.simulator.add_fault({"fault": fault, **({"on": on} if on else {}), **fields})

    def no_more_faults(self) -> None:
        """Drop the rules that are left."""
        self.simulator.rules = []

    def set(self, **quirks: object) -> None:
        """Change settings."""
        self.simulator.change_settings(quirks)

    def set_stock(self, product_id: str, cluster_id: str, gpus: int | None) -> None:
        """Fix the GPUs of a product in a cluster."""
        self.simulator.set_stock(product_id, cluster_id, gpus)

    def set_price(self, product_id: str, price_e5: int, spot_e5: int = 0) -> int:
        """New prices of a product from now on; returns for how many existing instances they count."""
        return self.simulator.set_price(product_id, price_e5, spot_e5)

    def set_billed(self, name: str, *, missing: bool) -> int:
        """Leave instances with a matching name out of the bill, or show them again; returns how many."""
        return self.simulator.set_billed(name, missing=missing)

    def set_load(self, name: str = "", *, samples: str | None = None, **series: float | None) -> int:
        """Set how busy instances with a matching name are from now on (None: no samples); returns how many."""
        values = {key: [] if value is None else [float(value)] for key, value in series.items()}
        return self.simulator.set_load(name, {key: tuple(value) for key, value in values.items()}, samples)

    def ledger(self, pattern: str | None = None) -> Ledger:
        """The bills; the one group of *pattern* groups instance names into create requests."""
        return self.simulator.ledger(pattern)

    def billed_at_once(self, name: str) -> int:
        """The most instances with a fully matching name that were ever billed at the same instant."""
        whole = re.compile(name)
        bills = (bill for bill in self.ledger().bills if whole.fullmatch(bill.name))
        return at_once(period for bill in bills for period in bill.periods)

    def calls(self) -> dict[str, Any]:
        """Counts by call and outcome, and the busiest minute."""
        return self.simulator.calls.report()

    def instances(self, name: str = "") -> list[Instance]:
        """The existing instances (also hidden ones) with a matching name."""
        now = self.now()
        return [
            instance
            for instance in self.world.instances.values()
            if re.search(name, instance.order.name) and instance.removed_at() > now and not instance.vanished(now)
        ]

    def status(self, instance_id: str) -> Status:
        """The status of an instance, whatever the list says."""
        return self.world.instances[instance_id].status(self.now())

    async def ask(self, path: str, body: object = None, **query: object) -> tuple[int, Any]:
        """Make one of the provider's v1 calls (POST if there is a body): the status and the JSON, or None."""
        method = "GET" if body is None else "POST"
        asked = {name: str(value) for name, value in query.items()}
        request = self._session.request(method, f"{self.base_url}/v1{path}", json=body, params=asked)
        async with request as response:
            content = await response.read()
            return response.status, msgspec.json.decode(content) if content else None

    async def create(self, name: str = "worker", **fields: object) -> str:
        """Create a plain instance over HTTP; returns its id."""
        status, body = await self.ask("/gpu/instance/create", PLAIN | {"name": name} | fields)
        if status != _OK:
            raise AssertionError(body)
        return str(body["id"])

    def odd_template(self, content: dict[str, Any]) -> str:
        """Add a template that is shown exactly as given (it needs an `Id`), however broken."""
        template = Template(id=str(content["Id"]), name="", image="", verbatim=content)
        return self.world.keep("template", self.world.templates, template).id


@asynccontextmanager
async def start_simulator(
    *,
    clock: str = "stepped",
    state: Path | None = None,
    seed: int = 1,
    keys: frozenset[str] = frozenset(),
    **quirks: object,
) -> AsyncGenerator[Simulated]:
    """A simulator for the length of the block; *quirks* are settings, and times are whole seconds unless given."""
    times = _TIMES if clock == "stepped" else {}
    options = Options(clock=clock, state=state, seed=seed, keys=keys, quirks=times | quirks)
    headers = {"Authorization": f"Bearer {next(iter(keys), 'any-key')}"}
    async with listen(options) as listening, ClientSession(headers=headers) as session:
        yield Simulated(listening.simulator, listening.root_url, session)
