"""One run: build, attack, let it come to rest, judge."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from support.chaos import judges
from support.chaos.harm import database, outside, processes
from support.chaos.harm.restore import restore
from support.chaos.http import TIMEOUT, Http
from support.chaos.installation import CLOCK, Installation, until
from support.chaos.receivers import Receiver
from support.chaos.report import Report
from support.chaos.rules import Field, Rule, strike_all
from support.chaos.users import USERS, Asked, StreamReader, Users
from support.histories import invariants

QUIET_SECONDS = 300.0
"""How long it may take to come to rest: a lost create takes the settle minute, a webhook up to three retries."""

RULES = {
    rule.name: rule
    for rule in (
        Rule(name="kill", chance=0.7, strike=processes.kill),
        Rule(name="freeze", chance=0.15, strike=processes.freeze),
        Rule(name="cut_database", chance=0.08, strike=processes.cut_database),
        Rule(name="cut_provider", chance=0.08, strike=processes.cut_provider),
        Rule(name="restart_database", chance=0.05, strike=database.restart),
        Rule(name="freeze_database", chance=0.04, strike=database.freeze),
        Rule(name="read_only", chance=0.05, strike=database.read_only),
        Rule(name="cancel_statements", chance=0.1, strike=database.cancel_statements),
        Rule(name="lie", chance=0.06, strike=outside.lie),
        Rule(name="hang_receiver", chance=0.06, strike=outside.hang_receiver),
        Rule(name="restore", chance=0.02, strike=restore),
    )
}


async def attack(place: Path, *, seconds: float, seed: int, rules: Sequence[str] = tuple(RULES)) -> Report:
    """Attack an installation in *place* for so long with *rules*, let it come to rest, and judge."""
    report, dice = Report(seed=seed), random.Random(seed)  # noqa: S311  # not for secrets
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiohttp.ClientSession(timeout=TIMEOUT))
        installation = Installation(place, seed, Receiver(random.Random(f"{seed}-receiver")))  # noqa: S311
        await installation.build(stack)
        field = Field(
            installation=installation,
            http=Http(client, installation.apis, installation.simulator),
            asked=Asked(),
            report=report,
            dice=dice,
        )
        await until(lambda: _is_ready(field), 120)
        await _attack(field, [RULES[name] for name in rules], seconds)
    return report


async def _is_ready(field: Field) -> bool:
    return await field.http.get("/health/ready") is not None


async def _attack(field: Field, rules: Sequence[Rule], seconds: float) -> None:
    http, receiver = field.http, field.installation.receiver
    await outside.set_faults(field)
    users = Users(http, field.asked, field.report, receiver.silent_url)
    stream = StreamReader(http, field.asked)
    background = [
        asyncio.create_task(stream.read()),
        asyncio.create_task(_supervise(field)),
        asyncio.create_task(judges.watch_listings(http, field)),
    ]
    working = [asyncio.create_task(users.work(number)) for number in range(USERS)]
    await strike_all(field, rules, seconds)
    users.is_over = True
    await asyncio.gather(*working)
    await http.sim("DELETE", "/_sim/fault")
    receiver.is_failing = False
    began = CLOCK.monotonic()
    with contextlib.suppress(TimeoutError):
        await until(lambda: judges.is_at_rest(field), QUIET_SECONDS)
    field.report.settled_after = CLOCK.monotonic() - began
    await judges.judge(field)
    for task in background:
        task.cancel()
    ended = await asyncio.gather(*background, return_exceptions=True)
    field.report.trouble += [f"{error!r}" for error in ended if isinstance(error, Exception)]
    field.report.trouble += invariants.of_stream(stream.numbers, field.report.events)


async def _supervise(field: Field) -> None:
    while True:
        field.report.trouble += await field.installation.supervise()
        await CLOCK.sleep(0.5)
