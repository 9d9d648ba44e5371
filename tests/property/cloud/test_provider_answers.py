"""
Whatever the provider answers, the client gives what can be kept, or one of our errors.

Valid answers of the simulator, one for each call that is used, are distorted: types swapped, parts missing, huge,
nested, repeated, cut, not UTF-8. They travel over a real socket through the real client.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from support.clock.clocks import SteppedClock
from support.fuzz.laws import flaws
from support.fuzz.provider import REQUEST
from support.provider.distortion import ODD, distorted, written
from support.provider.upstream import upstream

from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.domain.errors import CloudError
from corral.domain.placement.catalog import BillingMode, TemplateChannel
from novitasim.testing import start_simulator

CALLS: dict[str, Callable[[NovitaCloud], Awaitable[object]]] = {
    "/v1/products": lambda cloud: cloud.products(cluster_id=None, billing_mode=BillingMode.SPOT),
    "/v1/clusters": lambda cloud: cloud.clusters(),
    "/v1/template?templateId=107672": lambda cloud: cloud.template("107672"),
    "/v1/templates?channel=official&pageNum=0&pageSize=5": lambda cloud: cloud.templates(TemplateChannel.OFFICIAL),
    "/v1/repository/auths": lambda cloud: cloud.registry_credentials("1"),
    "/v1/gpu/instance/create": lambda cloud: cloud.create(REQUEST),
    "/v1/gpu/instance?instanceId=ID": lambda cloud: cloud.instance("ID"),
    "/v1/gpu/instances?pageNum=0&pageSize=5": lambda cloud: cloud.instances(),
    "/v1/gpu/instance/delete": lambda cloud: cloud.delete("ID"),
}
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Date": st.sampled_from(
            ["", "now", "Mon, 01 Jan 2024 00:00:00 +99999999999999999999", "Mon, 1 Jan 0 0:0:0 -0000"]
        ),
        "Retry-After": st.sampled_from(
            ["-1", "1e999", "9" * 400, "NaN", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"]
        ),
        "Content-Encoding": st.sampled_from(["identity", "gzip", "br", "\u00e9"]),
        "Content-Type": st.sampled_from(["text/html", "application/json; charset=utf-7", ";;;", "a" * 300]),
        "Location": st.just("http://169.254.169.254/"),
        "Set-Cookie": st.sampled_from(["a=b; Path=/;;;", "\u00e9=\u00e9", "=;=;"]),
    },
)
STATUSES = st.sampled_from([200, 200, 200, 200, 201, 206, 302, 400, 401, 404, 409, 418, 429, 500, 503])


@dataclass(kw_only=True)
class Liar:
    """A provider with scripted answers, and the client under test."""

    runner: asyncio.Runner
    valid: dict[str, Any]
    address: str
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    calls: int = 0

    async def answer(self, _request: web.Request) -> web.StreamResponse:
        self.calls += 1
        return web.Response(status=self.status, body=self.body, headers=self.headers)

    def asked(self, path: str) -> object:
        """What the client makes of the answer; None for an error of ours."""

        async def ask() -> object:
            async with HttpExchange(
                base_url=self.address, api_key=SecretStr("key"), timeout_seconds=10, clock=SteppedClock()
            ) as exchange:
                try:
                    return await CALLS[path](NovitaCloud(exchange))
                except CloudError:
                    return None

        return self.runner.run(ask())


async def _valid() -> dict[str, Any]:
    """What the simulator says, of each call."""
    found: dict[str, Any] = {}
    async with start_simulator(boot_seconds=0, pull_seconds=0) as sim, aiohttp.ClientSession() as client:
        order = {"name": "a", "productId": "4090.16c62g", "gpuNum": 1, "rootfsSize": 60, "kind": "gpu"}
        order |= {"imageUrl": "i", "clusterId": "us-ca-6", "billingMode": "onDemand", "ports": "80/http"}
        auth = {"name": "hub.example", "username": "u", "password": "p"}
        headers = {"Authorization": "Bearer key"}

        async def say(method: str, path: str, **options: Any) -> Any:
            async with client.request(method, sim.base_url + path, headers=headers, **options) as response:
                assert response.status == 200, await response.text()
                return await response.json()

        await say("POST", "/v1/repository/auth/save", json=auth)
        created = [await say("POST", "/v1/gpu/instance/create", json=order) for _ in range(7)]
        sim.advance(10)
        for path in CALLS:
            if path.endswith("create"):
                found[path] = created[0]
            elif path.endswith("delete"):
                found[path] = {}
            else:
                found[path] = await say("GET", path.replace("=ID", f"={created[0]['id']}"))
    return found


pytestmark = pytest.mark.usefixtures("quietly")


@pytest.fixture(scope="module")
def liar() -> Generator[Liar]:
    with asyncio.Runner() as runner:
        liar = Liar(runner=runner, valid=runner.run(_valid()), address="")
        serving = upstream(liar.answer)
        liar.address = runner.run(serving.__aenter__())
        yield liar
        runner.run(serving.__aexit__(None, None, None))


@pytest.mark.parametrize("path", CALLS)
@given(data=st.data())
@settings(max_examples=60)
def test_a_distorted_answer_is_read_or_raised_as_our_error(liar: Liar, path: str, data: st.DataObject) -> None:
    """Nothing else comes out of the client, and nothing that PostgreSQL or JSON could not hold."""
    liar.body = data.draw(distorted(liar.valid[path]))
    liar.status = data.draw(STATUSES)
    liar.headers = data.draw(HEADERS)
    liar.calls = 0

    found = liar.asked(path)

    assert flaws(found) == []
    assert liar.calls < 10


@pytest.mark.parametrize("path", [path for path in CALLS if not path.endswith("delete")])
@pytest.mark.parametrize("named", [True, False])
def test_every_field_may_be_anything(liar: Liar, path: str, *, named: bool) -> None:
    """Each odd value in every place of each answer at once; with ids as they were, or not."""
    liar.status, liar.headers = 200, {}
    for odd in ODD:
        liar.body = written(_filled(liar.valid[path], odd, named=named), plain=False)

        assert flaws(liar.asked(path)) == [], odd


def _filled(tree: Any, odd: Any, *, named: bool) -> Any:
    """*tree* with *odd* for every leaf; those called id stay if it is *named*."""
    if isinstance(tree, dict):
        kept = {"id", "Id"} if named else set[str]()
        return {key: part if key in kept else _filled(part, odd, named=named) for key, part in tree.items()}
    return [_filled(part, odd, named=named) for part in tree] if isinstance(tree, list) and tree else odd
