"""
Exclusive access to the database, for work that must not run beside a service.

A service reads the installation's id once, when it starts, and before that applies migrations under a lock. Holding
that lock keeps services from starting; if there is then no connection of a service, none runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from corral.domain.errors import GoalRefusedError
from corral.store.server.migrate import LOCK_KEY
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import driver_errors

_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'corral%'
"""


@asynccontextmanager
async def exclusive_access(target: DatabaseTarget) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """
    Keep services from starting for as long as this is open; raises GoalRefusedError when one runs.

    Yields a function that checks that again.
    """
    with driver_errors():
        connection = await asyncpg.connect(**target.arguments())

    async def check() -> None:
        with driver_errors():
            others = await connection.fetchval(_OTHERS)
        if others:
            raise GoalRefusedError("Corral is running on this database: stop every `corral serve` of it first")

    try:
        with driver_errors():
            await connection.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
        await check()
        yield check
    finally:
        connection.terminate()
