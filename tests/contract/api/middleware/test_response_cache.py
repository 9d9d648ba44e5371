"""Cached responses: only while nothing changed, and only to callers that may see them."""

from __future__ import annotations

import resource
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import Stream
from support.clock.clocks import SteppedClock
from support.http.service import Service, error_of, serving

from corral.api.middleware.auth import OPERATOR, VIEWER
from corral.api.middleware.response_cache import KEPT_SECONDS, MOST_BYTES, CachedResponse, ResponseCache
from corral.store.session.database import Database

PATH = "/api/instances/inst_a1"
STREAMED, PIECE = 200 * 2**20, 2**20


class Counter:
    """Counts the calls of its routes, and returns the count in every response."""

    def __init__(self, answers: ResponseCache) -> None:
        self.asked = 0
        self._answers = answers

    def routes(self) -> list[HTTPRouteHandler]:
        """One that is kept, one that is not, one during which something changes, and one that changes something."""

        @get("/api/instances/{instance_id:str}", opt=VIEWER)
        async def one(instance_id: FromPath[str]) -> dict[str, object]:
            self.asked += 1
            if instance_id == "inst_moving":
                self._answers.forget()
            return {"id": instance_id, "asked": self.asked}

        @get("/api/instances/{instance_id:str}/events", opt=VIEWER)
        async def events(instance_id: FromPath[str]) -> dict[str, object]:
            self.asked += 1
            return {"id": instance_id, "asked": self.asked}

        @post("/api/instances/{instance_id:str}/start", opt=OPERATOR)
        async def start(instance_id: FromPath[str]) -> dict[str, object]:
            return {"id": instance_id}

        @get("/api/instances/{instance_id:str}/logs", opt=VIEWER)
        async def logs(instance_id: FromPath[str]) -> Stream:
            async def pieces() -> AsyncGenerator[bytes]:
                for _ in range(STREAMED // PIECE):
                    yield bytes(PIECE)

            del instance_id
            return Stream(pieces())

        return [one, events, start, logs]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnv:
    """What is asked, and what it asks."""

    service: Service
    answers: ResponseCache
    clock: SteppedClock

    async def asked(self, path: str = PATH, **headers: str) -> int:
        """The number in the answer: the same number is the same answer."""
        answer = await self.service.ask("GET", path, headers=headers)
        assert answer.status == 200, answer
        number: int = answer.json["asked"]
        return number


@asynccontextmanager
async def desk_of(database: Database, *, local_only: bool = True) -> AsyncGenerator[CommandEnv]:
    clock = SteppedClock()
    answers = ResponseCache(clock)
    routes = Counter(answers).routes()
    async with serving(database, answers=answers, routes=routes, local_only=local_only) as service:
        yield CommandEnv(service=service, answers=answers, clock=clock)


async def test_what_did_not_change_is_answered_again_for_a_second(database: Database) -> None:
    """With ids of its own, and counted like any other."""
    async with desk_of(database) as env:
        first = await env.service.ask("GET", PATH)
        second = await env.service.ask("GET", PATH)
        assert first.body == second.body
        assert first.headers["content-type"] == second.headers["content-type"]
        assert first.headers["x-request-id"] != second.headers["x-request-id"]
        counted = env.service.engine.runtime.metrics.registry.get_sample_value(
            "corral_http_requests_total",
            {"method": "GET", "route": "/api/instances/{instance_id}", "status": "200"},
        )
        assert counted == 2

        env.clock.advance(KEPT_SECONDS)
        assert await env.asked() == 2


async def test_a_change_heard_of_ends_it(database: Database) -> None:
    """Whatever process made it."""
    async with desk_of(database) as env:
        assert await env.asked() == 1

        env.answers.forget()
        assert await env.asked() == 2


async def test_a_caller_sees_its_change_in_the_next_response(database: Database) -> None:
    """The notice may not have come back yet."""
    async with desk_of(database) as env:
        assert await env.asked() == 1
        assert (await env.service.ask("POST", f"{PATH}/start")).status == 201

        assert await env.asked() == 2


async def test_an_answer_that_a_change_overtook_is_not_kept(database: Database) -> None:
    """It may have been read before the change."""
    async with desk_of(database) as env:
        moving = "/api/instances/inst_moving"

        assert [await env.asked(moving), await env.asked(moving)] == [1, 2]


async def test_other_addresses_have_other_answers(database: Database) -> None:
    """Also by their query; responses that are no instance are always built again."""
    async with desk_of(database) as env:
        addresses = (PATH, f"{PATH}?x=1", "/api/instances/inst_b2", f"{PATH}/events", f"{PATH}/events")

        assert [await env.asked(address) for address in addresses] == [1, 2, 3, 4, 5]


async def test_a_page_of_another_origin_gets_an_answer_of_its_own(database: Database) -> None:
    """What its browser needs to see in the headers is for that page alone."""
    async with desk_of(database) as env:
        assert await env.asked() == 1
        answer = await env.service.ask("GET", PATH, headers={"origin": "https://ops.example"})

        assert answer.headers["access-control-allow-origin"] == "https://ops.example"
        assert "access-control-allow-origin" not in (await env.service.ask("GET", PATH)).headers


async def test_a_cached_response_is_not_shown_to_another_caller(database: Database) -> None:
    """A kept answer has the same door as the route."""
    async with desk_of(database, local_only=False) as env:
        needs = CachedResponse(route="/api/instances/{instance_id}", needs=VIEWER, headers=(), body=b"{}")
        env.answers.kept.put(f"{PATH}?", needs)

        error_of(await env.service.ask("GET", PATH), 401, "UNAUTHORIZED")


def test_memory_is_bounded() -> None:
    """Pages of a large fleet, asked for in every order, must not fill it."""
    answers = ResponseCache(SteppedClock())
    for number in range(5):
        answers.kept.put(
            f"{PATH}?{number}",
            CachedResponse(route="", needs=VIEWER, headers=(), body=b"x" * (MOST_BYTES // 2 - 1)),
        )

    assert [answers.kept.peek(f"{PATH}?{number}") is not None for number in range(5)] == [False] * 3 + [True] * 2


def test_a_replaced_response_does_not_count_twice() -> None:
    """The size of the one before is subtracted, so nothing else is pushed out."""
    answers = ResponseCache(SteppedClock())
    half = CachedResponse(route="", needs=VIEWER, headers=(), body=b"x" * (MOST_BYTES // 2))
    for address in ("first", "second", "second", "second"):
        answers.kept.put(address, half)

    assert [answers.kept.peek(address) for address in ("first", "second")] == [half, half]


async def test_a_stream_is_passed_on_and_not_held(database: Database) -> None:
    """A log that is followed would fill the memory."""
    async with desk_of(database) as env:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with env.service.client.get(env.service.address + PATH + "/logs") as response:
            received = 0
            while piece := await response.content.readany():
                received += len(piece)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024

    assert received == STREAMED
    assert grown < STREAMED // 2
