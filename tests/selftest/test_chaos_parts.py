"""The attack itself: every rule strikes, a cut connection is silent, and the judges see what is wrong."""

from __future__ import annotations

import asyncio
import random

import pytest
from support.chaos.judges import of_purchases, of_removals, of_returns
from support.chaos.proxy import Proxy
from support.chaos.rules import Field, Rule, plan
from support.http import servers


async def nothing(_: Field) -> None:
    """Harm nothing."""


@pytest.mark.parametrize("seed", range(20))
def test_every_rule_strikes_in_every_run(seed: int) -> None:
    """A run without a strike proves nothing about the rule."""
    rules = [Rule(name="often", chance=0.9, strike=nothing), Rule(name="never", chance=0.0, strike=nothing)]
    planned = plan(rules, 7, random.Random(seed))  # noqa: S311

    assert {rule.name for due in planned.values() for rule in due} == {"often", "never"}


async def test_a_cut_connection_goes_silent_without_an_end() -> None:
    """Only new connections work after the mend, as behind a router that forgot the old ones."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)

    async with servers.serving(echo) as port:
        loop = asyncio.get_running_loop()
        proxy = Proxy(lambda make: loop.create_connection(make, "127.0.0.1", port))
        await proxy.start()
        first, to_first = await asyncio.open_connection("127.0.0.1", proxy.port)
        to_first.write(b"a")
        assert await first.readexactly(1) == b"a"

        proxy.cut()
        proxy.mend()
        to_first.write(b"b")
        second, to_second = await asyncio.open_connection("127.0.0.1", proxy.port)
        to_second.write(b"c")
        assert await second.readexactly(1) == b"c"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first.read(1), 0.05)
        for writer in (to_first, to_second):
            writer.close()
        await proxy.stop()


def machine(instance: str, attempt: int, status: str = "running") -> dict[str, str]:
    return {"id": f"m{attempt}", "name": f"corral-abcdef-inst-{instance}-{attempt}", "status": status}


def test_a_machine_that_was_deleted_without_a_request_is_seen() -> None:
    """Also when the instance got another one."""
    gone = [machine("asked", 1), machine("lost", 1), {"id": "y", "name": "not-ours"}]

    assert of_removals(gone, {"inst_asked"}) == [
        "corral-abcdef-inst-lost-1 (m1) was deleted although no delete was requested"
    ]


def test_a_second_machine_of_an_instance_is_seen() -> None:
    """Also when the first was deleted before the second was billed, which the ledger does not count as twice."""
    machines = [machine("a", 1, "removed"), machine("a", 2), machine("b", 1)]

    assert [line.split(":")[0] for line in of_purchases(machines, set())] == ["inst_a was bought twice"]
    assert of_purchases(machines, {"inst_a"}) == []


def test_an_instance_that_comes_back_after_its_end_is_seen() -> None:
    """After `terminated` a user no longer watches the bill."""
    shown = [("running", "terminated"), ("terminated", "deleting"), ("deleting", "terminated")]
    events = [{"instanceId": "i", "previousStatus": old, "status": new, "reason": "seen"} for old, new in shown]

    assert of_returns(events[:1]) == []
    assert of_returns(events) == [
        "i was terminated and then deleting: seen",
        "i was terminated and then terminated: seen",
    ]
