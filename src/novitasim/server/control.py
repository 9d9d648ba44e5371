"""
The control routes under /_sim, for the operator of the simulator. The provider has no such routes.

Outside the bearer keys, for loopback only, and not for pages of another origin: they can read everything and end the
world. A body must be application/json, which a page of another origin cannot send without asking first.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from novitasim import settings
from novitasim.faults.faults import FaultError
from novitasim.server.control_billing import BillingControl, read_body
from novitasim.server.simulator import ENDPOINTS, Simulator
from novitasim.settings import SettingError
from novitasim.world.account import Template
from novitasim.world.load import FAULT_MEANING, SERIES

_encode = msgspec.json.Encoder().encode
_decode_percents = msgspec.json.Decoder(tuple[Annotated[float, msgspec.Meta(ge=0, le=100)], ...]).decode

# A name of another site that points here would be a web page reaching into this machine.
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

Act = Callable[["Control", web.Request], Awaitable[object]]


class Control(BillingControl):
    """What may be asked of a running simulator."""

    async def state(self, request: web.Request) -> object:
        """GET /_sim/state: a summary, and every instance unless `instances=false`."""
        simulator = self._simulator
        now = simulator.now()
        world = simulator.world
        living = [instance for instance in world.instances.values() if instance.removed_at() > now]
        report: dict[str, object] = {
            "now": now,
            "total": len(world.instances),
            "living": len(living),
            "billed": sum(instance.claim(now) == "billed" for instance in living),
            "by_status": Counter(instance.status(now) for instance in world.instances.values()),
            "faults": len(simulator.rules),
            "templates": len(world.templates),
        }
        if request.query.get("instances") != "false":
            report["instances"] = [
                {
                    "id": instance.id,
                    "name": instance.order.name,
                    "status": instance.status(now),
                    "claim": instance.claim(now),
                    "productId": instance.order.product_id,
                    "clusterId": instance.order.cluster_id,
                    "hidden": instance.hidden(now),
                    "course": [(step.at, step.status) for step in instance.course],
                }
                for instance in world.instances.values()
            ]
        return report

    async def fault_add(self, request: web.Request) -> object:
        """POST /_sim/fault: add a rule, or harm instances at once."""
        struck = self._simulator.add_fault(await read_body(request))
        return {"rules": len(self._simulator.rules), "struck": struck}

    async def fault_list(self, _: web.Request) -> object:
        """GET /_sim/fault: the rules that are left."""
        return {"faults": [dataclasses.asdict(rule) for rule in self._simulator.rules], "on": sorted(set(ENDPOINTS))}

    async def fault_clear(self, _: web.Request) -> object:
        """DELETE /_sim/fault: no more faults."""
        self._simulator.rules = []
        return {"rules": 0}

    async def advance(self, request: web.Request) -> object:
        """POST /_sim/advance {seconds}: move time forward."""
        seconds = (await read_body(request)).get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0:
            raise SettingError(f"seconds cannot be {seconds!r}; accepted: a number >= 0")
        return {"now": self._simulator.advance(seconds)}

    async def calls(self, _: web.Request) -> object:
        """GET /_sim/calls: counts by call and outcome, and the busiest minute."""
        return self._simulator.calls.report()

    async def settings_show(self, _: web.Request) -> object:
        """GET /_sim/settings: every setting."""
        chosen = self._simulator.world.settings
        return {
            name: {
                "value": settings.shown(getattr(chosen, name)),
                "default": settings.shown(default),
                "accepts": accepts.words,
                "means": means,
            }
            for name, (accepts, means, default) in settings.fields().items()
        }

    async def settings_change(self, request: web.Request) -> object:
        """POST /_sim/settings {name: value}: all of them, or none if one is wrong."""
        self._simulator.change_settings(await read_body(request))
        return settings.overrides(self._simulator.world.settings)

    async def stock_show(self, _: web.Request) -> object:
        """GET /_sim/stock: GPUs held and left, per product and cluster."""
        now, world = self._simulator.now(), self._simulator.world
        return [
            {
                "productId": product.id,
                "clusterId": cluster,
                "held": world.stock.held((product.id, cluster)),
                "left": world.left((product.id, cluster), now),
            }
            for product in world.catalog.products.values()
            for cluster in product.clusters
        ]

    async def stock_set(self, request: web.Request) -> object:
        """POST /_sim/stock {productId, clusterId, gpus}: fix the GPUs of a place; null gives them back."""
        body = await read_body(request)
        gpus = body.get("gpus")
        if gpus is not None and (isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0):
            raise SettingError(f"gpus cannot be {gpus!r}; accepted: a whole number >= 0, or null")
        try:
            self._simulator.set_stock(str(body.get("productId")), str(body.get("clusterId")), gpus)
        except KeyError as error:
            raise SettingError(f"{error} is not a product, or not a cluster of that product") from error
        return {}

    async def load(self, request: web.Request) -> object:
        """
        POST /_sim/load {name, gpu, gpuMemory, cpu, memory, disk, samples}: percent, a list per GPU, or null for none.

        `samples` says what is wrong with the samples from now on, whatever the load.
        """
        body = await read_body(request)
        name, samples = str(body.pop("name", "")), body.pop("samples", None)
        unknown = set(body) - set(SERIES)
        if unknown or not (body or samples):
            raise SettingError(
                f"a load has no {', '.join(sorted(unknown)) or 'series'}; there are: {', '.join(SERIES)}, samples"
            )
        if samples is not None and samples not in FAULT_MEANING:
            raise SettingError(f"samples cannot be {samples!r}; accepted: {', '.join(FAULT_MEANING)}")
        try:
            re.compile(name)
        except re.error as error:
            raise SettingError(f"name cannot be {name!r}; accepted: a regular expression ({error})") from error
        series = {key: _percents(key, raw) for key, raw in body.items()}
        return {"instances": self._simulator.set_load(name, series, None if samples is None else str(samples))}

    async def template(self, request: web.Request) -> object:
        """POST /_sim/template {Id, ...}: a template that is shown exactly as given, however broken."""
        body = await read_body(request)
        template_id = str(body.get("Id") or "")
        if not template_id:
            raise SettingError("a template needs an Id")
        world = self._simulator.world
        world.keep("template", world.templates, Template(id=template_id, name="", image="", verbatim=body))
        self._simulator.record()
        return {"templateId": template_id}

    async def reset(self, _: web.Request) -> object:
        """POST /_sim/reset: forget every instance, fault and count; settings stay."""
        self._simulator.reset()
        return {}


_ACTS: tuple[tuple[str, str, Act], ...] = (
    ("GET", "state", Control.state),
    ("POST", "fault", Control.fault_add),
    ("GET", "fault", Control.fault_list),
    ("DELETE", "fault", Control.fault_clear),
    ("POST", "advance", Control.advance),
    ("GET", "ledger", Control.ledger),
    ("POST", "price", Control.price),
    ("POST", "bill", Control.bill),
    ("GET", "calls", Control.calls),
    ("GET", "settings", Control.settings_show),
    ("POST", "settings", Control.settings_change),
    ("GET", "stock", Control.stock_show),
    ("POST", "stock", Control.stock_set),
    ("POST", "load", Control.load),
    ("POST", "template", Control.template),
    ("POST", "reset", Control.reset),
)


def described() -> list[tuple[str, str, str]]:
    """(method, path, meaning) of every control call; the meaning is its docstring after the call itself."""
    return [
        (method, f"/_sim/{name}", " ".join((act.__doc__ or "").partition(f"/_sim/{name}")[2].strip(":. \n").split()))
        for method, name, act in _ACTS
    ]


def add_routes(app: web.Application, simulator: Simulator) -> None:
    """Serve the control calls."""
    control = Control(simulator)
    for method, name, act in _ACTS:
        app.router.add_route(method, f"/_sim/{name}", _guarded(control, act))


def _guarded(control: Control, act: Act) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def serve(request: web.Request) -> web.Response:
        if not _is_loopback(request.remote) or urlsplit(f"//{request.host}").hostname not in _LOCAL_NAMES:
            return _json({"error": "only for loopback, by the name localhost or its address"}, status=403)
        if "Origin" in request.headers and request.headers["Origin"] != f"http://{request.host}":
            return _json({"error": "not for pages of another origin"}, status=403)
        if request.can_read_body and request.content_type != "application/json":
            return _json({"error": "the body must be application/json"}, status=415)
        try:
            return _json(await act(control, request))
        except (SettingError, FaultError, ValueError) as error:
            return _json({"error": str(error)}, status=400)

    return serve


def _is_loopback(remote: str | None) -> bool:
    try:
        return remote is not None and ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


def _percents(name: str, raw: object) -> tuple[float, ...]:
    try:
        return _decode_percents(_encode(raw if isinstance(raw, list) else [] if raw is None else [raw]))
    except msgspec.MsgspecError:
        accepted = "0 to 100, a list of those (one for each GPU), or null"
        raise SettingError(f"{name} cannot be {raw!r}; accepted: {accepted}") from None


def _json(content: object, *, status: int = 200) -> web.Response:
    return web.Response(body=_encode(content), status=status, content_type="application/json")
