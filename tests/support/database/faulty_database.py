"""The real database, with a script that says before or after which commit it or the process goes away."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from corral.jobs.driver import QUEUE
from corral.store.session.database import Connection, Database, Pool
from support.histories.script import Killed, Script

_STEPS = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE corral_|pg_try_advisory_lock)")
"""A step: each write, and each lock, because a process paused after that decides by a record that others change."""


class FaultyDatabase(Database):
    """A database with commits that are steps of a script."""

    def __init__(self, pool: Pool, script: Script) -> None:
        super().__init__(pool)
        self._script = script
        self.has_new_jobs = True
        """Whether the queue could hold a job that was not fetched yet: saves most reads of the queue."""

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        async with super().connection() as connection:
            yield cast("Connection", _FaultyConnection(connection, self, self._script))


class _FaultyConnection:
    """Wraps a pooled connection; a statement outside a transaction that writes or locks is a commit of its own."""

    def __init__(self, real: Connection, database: FaultyDatabase, script: Script) -> None:
        self._real = real
        self._database = database
        self._script = script
        self._open = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def execute(self, query: str, *values: object, **options: Any) -> str:
        return cast("str", await self._sent(self._real.execute, query, *values, **options))

    async def fetch(self, query: str, *values: object, **options: Any) -> Any:
        return await self._sent(self._real.fetch, query, *values, **options)

    async def fetchrow(self, query: str, *values: object, **options: Any) -> Any:
        return await self._sent(self._real.fetchrow, query, *values, **options)

    async def fetchmany(self, query: str, values: Sequence[Sequence[object]], **options: Any) -> Any:
        """As asyncpg does it: one commit for all of *values*."""
        try:
            return await self._sent(self._real.fetchmany, query, values, **options)
        except Killed as killed:
            # Only batchers send such groups, from a task of their own, which cancels its waiters. asyncio would log
            # another error of that task as one that was never retrieved.
            raise asyncio.CancelledError from killed

    async def _sent(self, send: Callable[..., Awaitable[Any]], query: str, *values: object, **options: Any) -> Any:
        self._database.has_new_jobs |= f"INSERT INTO {QUEUE}" in query
        if self._open or not _STEPS.search(query):
            return await send(query, *values, **options)
        return await self._script.committing(lambda: send(query, *values, **options), _nothing)

    def is_in_transaction(self) -> bool:
        return self._open

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        assert not self._open, "no code here nests transactions"
        if not self._script.threatens_commit():
            # No other work runs between two steps, so a transaction that will be committed looks the same without
            # its brackets; they would be a third of all round trips.
            self._open = True
            try:
                yield
            finally:
                self._open = False
            await self._script.committing(_nothing, _nothing)
            return
        transaction = self._real.transaction()
        await transaction.start()
        self._open = True
        try:
            yield
        except BaseException:
            await transaction.rollback()
            raise
        else:
            await self._script.committing(transaction.commit, transaction.rollback)
        finally:
            self._open = False


async def _nothing() -> None:
    """There is nothing to roll back."""
