"""Reports of use while a session is open, on real connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
from support.clock.waiting import until
from support.http.sample_instance import SAMPLE
from support.http.servers import HttpAnswers, http_answer, serving

from corral.cli.remote.heartbeat import Heartbeat, report_use
from corral_client import AsyncClient

READY = {
    **SAMPLE,
    "lastUsedAt": "2030-01-01T00:00:00Z",
    "instanceId": "inst_1",
}
ACCEPTED = http_answer(200, msgspec.json.encode(READY), content_type="application/json")
"""The instance, and also the answer to a report."""


def reports(answers: HttpAnswers) -> int:
    return sum(head.startswith("PUT /api/instances/inst_1/last-used ") for head in answers.heads)


@asynccontextmanager
async def open_session(answers: HttpAnswers) -> AsyncGenerator[Heartbeat]:
    """A session that reports its use to *answers*, in the shortest intervals."""
    async with serving(answers) as port:
        with Heartbeat(f"http://127.0.0.1:{port}", "inst_1", every=0) as heartbeat:
            yield heartbeat


async def test_use_is_reported_again_and_again_while_a_session_is_open() -> None:
    answers, before = HttpAnswers(ACCEPTED), set(threading.enumerate())

    async with open_session(answers) as heartbeat:
        heartbeat.start()
        heartbeat.start()
        await until(lambda: reports(answers) >= 3)
        started = [thread for thread in threading.enumerate() if thread not in before]

    assert [thread.name for thread in started] == ["corral-client"]
    assert not started[0].is_alive()


async def test_nothing_is_reported_before_the_session_is_open() -> None:
    """A forward that waits for its machine does not use it."""
    answers = HttpAnswers(ACCEPTED)

    async with open_session(answers):
        pass

    assert answers.heads == []


@pytest.mark.parametrize("failure", [500, 429, 404, 400, 405, 0])
async def test_a_failed_report_is_followed_by_the_next(failure: int) -> None:
    """Whether the service fails, is no longer there, or does not find the instance, as after a restored backup."""
    failed = http_answer(failure) if failure else b"no http"
    answers = HttpAnswers(ACCEPTED, failed, ACCEPTED, failed, ACCEPTED)
    pauses = [True, True, False]

    async with serving(answers) as port, AsyncClient(f"http://127.0.0.1:{port}", max_retries=0) as client:
        await report_use(client, "inst_1", partial(_next, pauses))

    assert pauses == []
    assert reports(answers) == 3


@pytest.mark.parametrize("status", [401, 403])
async def test_a_report_with_a_refused_key_is_the_last(status: int) -> None:
    """Such as of a key that may only read."""
    answers = HttpAnswers(ACCEPTED, http_answer(status))

    async with serving(answers) as port, AsyncClient(f"http://127.0.0.1:{port}", max_retries=0) as client:
        await report_use(client, "inst_1", partial(_next, []))

    assert reports(answers) == 1


async def test_a_session_that_is_open_but_not_used_is_not_reported() -> None:
    """It is asked again each time: it may be used later."""
    answers = HttpAnswers(ACCEPTED)
    uses, pauses = [True, False, False, True], [True, True, True, False]

    async with serving(answers) as port, AsyncClient(f"http://127.0.0.1:{port}", max_retries=0) as client:
        await report_use(client, "inst_1", partial(_next, pauses), partial(uses.pop, 0))

    assert reports(answers) == 2


async def _next(pauses: list[bool]) -> bool:
    return pauses.pop(0)


async def test_the_end_of_a_session_waits_for_no_report() -> None:
    """Here for one that is never answered."""
    asked = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await asyncio.Event().wait()

    def session(port: int, ended: threading.Event) -> None:
        with Heartbeat(f"http://127.0.0.1:{port}", "inst_1") as heartbeat:
            heartbeat.start()
            ended.wait()

    ended = threading.Event()
    async with serving(silent) as port:
        running = asyncio.create_task(asyncio.to_thread(session, port, ended))
        await asked.wait()
        ended.set()
        await asyncio.wait_for(running, 30)
