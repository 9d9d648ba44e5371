"""Whatever happened: export, then import, is the same memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import asyncpg
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from support.database.archives import content, exported, imported
from support.database.fresh import new_database
from support.engines.engine_steps import REQUEST
from support.engines.fault_engine import FaultEngine, FaultEnvironment

from corral.domain.operation import OperationKind
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.sql.archive import EXPORTED

HISTORIES = 25

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
requested = st.tuples(st.just("create"), texts)
changes = st.tuples(st.sampled_from([kind.value for kind in OperationKind if kind is not OperationKind.CREATE]))
pauses = st.tuples(st.just("wait"), st.sampled_from([1.0, 2.0, 10.0, 90.0]))
histories = st.lists(st.one_of(requested, changes, pauses), min_size=1, max_size=12)


pytestmark = pytest.mark.usefixtures("quietly")


def test_export_then_import_is_the_same_memory(server: DatabaseTarget) -> None:
    """Names in any script, phases of any kind, events numbered and not."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stack = AsyncExitStack()
        source, copy = (runner.run(stack.enter_async_context(new_database(server))) for _ in range(2))

        @settings(max_examples=HISTORIES)
        @given(history=histories, salt=texts)
        def check(history: Sequence[tuple[str, ...]], salt: str) -> None:
            runner.run(_check(source, copy, history, salt))

        try:
            check()
        finally:
            runner.run(stack.aclose())


async def _check(source: DatabaseTarget, copy: DatabaseTarget, history: Sequence[tuple[str, ...]], salt: str) -> None:
    await _clear(source)
    await _clear(copy)
    environment = await FaultEnvironment.open(source)
    try:
        await _play(await environment.engine(), history)
        await _sprinkle(environment.database, salt)
        before, lines = await content(source), await exported(source)
    finally:
        await environment.close()
    await imported(copy, lines)
    after = await content(copy)
    (added,) = set(after["audit"]) - set(before["audit"])  # the line of the import itself
    await _execute(copy, "DELETE FROM corral_audit WHERE to_jsonb(corral_audit)::text = $1", added)

    assert '"route": "import"' in added
    assert await content(copy) == before
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines), "a row is one line"
    assert [_undated(line) for line in (await exported(copy))[1:]] == [_undated(line) for line in lines[1:]]


async def _clear(target: DatabaseTarget) -> None:
    await _execute(target, f"TRUNCATE {', '.join(EXPORTED.values())}")


async def _execute(target: DatabaseTarget, statement: str, *arguments: str) -> None:
    connection = await asyncpg.connect(**target.arguments())
    await connection.execute(statement, *arguments)
    await connection.close()


def _undated(line: bytes) -> bytes:
    """The line without when its instance is looked at next."""
    head, found, rest = line.partition(b'"look_at":')
    return head + rest.partition(b",")[2] if found else line


async def _play(engine: FaultEngine, history: Sequence[tuple[str, ...]]) -> None:
    for number, (what, *given_with) in enumerate(history):
        if what == "create":
            url = f"https://hooks.example/{number}" if number % 2 else None
            await engine.request_create(replace(REQUEST, name=given_with[0], webhook_url=url))
        elif what == "wait":
            await engine.step(float(given_with[0]))
        elif engine.requested:
            await engine.ask(OperationKind(what), engine.requested[number % len(engine.requested)])


async def _sprinkle(database: Database, salt: str) -> None:
    """What histories leave empty: attempts, receivers that hung up, answers and keys, with *salt* in every text."""
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO corral_delivery_attempts SELECT id, 1, now(), NULL, 3, $1, 'retry' FROM corral_deliveries",
            salt,
        )
        await connection.execute("INSERT INTO corral_silenced_receivers VALUES ($1, $1)", salt)
        await connection.execute(
            "INSERT INTO corral_idempotency VALUES ($1::text, $2, 201, $2, NULL, now())", salt, salt.encode()
        )
        await connection.execute(
            "INSERT INTO corral_keys VALUES ($1::text, $1, 'viewer', sha256($2), 'ck_', now())", salt, salt.encode()
        )
