"""
A call on the provider and its answer, without HTTP: what handlers take and give.

Handlers are plain functions of a `Call`, so that they can be tried without a server, and so that a fault can do the
call and drop the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from novitasim.api import wire
from novitasim.api.create_request import Body, invalid, text
from novitasim.api.endpoints import Endpoints
from novitasim.settings import Settings
from novitasim.world.instance import Instance
from novitasim.world.world import World

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Reply:
    """A response; *instance_id* names the instance of the call, for faults that apply to it."""

    content: bytes
    status: int = 200
    instance_id: str | None = None


class RenderCache:
    """Prints instances as JSON and keeps each print as long as it stays true."""

    def __init__(self) -> None:
        self._prints: dict[tuple[bool, str], tuple[Instance, Settings, float, bytes]] = {}

    def listed(self, world: World, instance: Instance, now: float, endpoints: Endpoints) -> bytes:
        """An item of the list."""
        key = (False, instance.id)
        kept = self._prints.get(key)
        if kept is not None and kept[0] is instance and kept[1] is world.settings and now < kept[2]:
            return kept[3]
        return self._print(key, world, instance, now, wire.listed(world, instance, now, endpoints))

    def detailed(self, world: World, instance: Instance, now: float, endpoints: Endpoints) -> bytes:
        """The whole of it. Not kept while jobs run on it, because those end by themselves."""
        key = (True, instance.id)
        kept = self._prints.get(key)
        if kept is not None and kept[0] is instance and kept[1] is world.settings and now < kept[2]:
            return kept[3]
        shown = wire.detailed(world, instance, now, endpoints)
        if shown["jobs"] or world.jobs:
            return _encode(shown)
        return self._print(key, world, instance, now, shown)

    def forget(self) -> None:
        """Drop everything: addresses may have changed."""
        self._prints.clear()

    def _print(self, key: tuple[bool, str], world: World, instance: Instance, now: float, shown: wire.Json) -> bytes:
        content = _encode(shown)
        self._prints[key] = (instance, world.settings, instance.steady_until(now), content)
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, already admitted."""

    world: World
    now: float
    endpoints: Endpoints
    cache: RenderCache
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body = field(default_factory=dict)

    def id(self, name: str) -> str:
        """An id that the body must carry."""
        return text(self.body, name, low=1, high=255)

    def instance(self) -> Instance:
        """The instance that the body names."""
        return self.world.find(self.id("instanceId"), self.now)


Handler = Callable[[Call], Reply]


@dataclass(frozen=True, slots=True)
class Route:
    """Where a handler is reached; *endpoint* is its short name in faults and counts, paced calls are bill calls."""

    endpoint: str
    method: str
    path: str
    handler: Handler
    is_paced: bool = False


def answer(content: object, *, instance_id: str | None = None) -> Reply:
    """A JSON answer."""
    return Reply(_encode(content), instance_id=instance_id)


def acted(form: str, instance: Instance, now: float) -> Reply:
    """The answer to an action, in one of the forms that clients have seen."""
    match form:
        case "empty":
            return Reply(b"", instance_id=instance.id)
        case "pair":
            pair = {"instanceId": instance.id, "state": instance.status(now).value}
            return answer(pair, instance_id=instance.id)
        case _:
            return answer({}, instance_id=instance.id)


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for."""

    first: int
    count: int
    number: int


def page(call: Call, *, base: int, number_name: str = "pageNum") -> Page:
    """The page that the query asks for. Below the first page lies the first page."""
    settings = call.world.settings
    count = _number(call.query, "pageSize") or settings.page_size_default
    if settings.page_size_cap:
        count = min(count, settings.page_size_cap)
    number = _number(call.query, number_name)
    asked = base if number is None else number
    return Page(first=max(0, asked - base) * count, count=count, number=asked)


def _number(query: Mapping[str, str], name: str) -> int | None:
    raw = query.get(name)
    if raw is None or raw == "":
        return None
    if not raw.isdecimal() or int(raw) > math.pow(2, 31):
        raise invalid(f"invalid {name}: must be an integer >= 0")
    return int(raw)
