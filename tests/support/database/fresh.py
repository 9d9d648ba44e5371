"""Databases of single tests: copies of the migrated template of the session's server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from corral.store.server.target import DatabaseTarget

TEMPLATE: Final = "corral_template"


@asynccontextmanager
async def new_database(server: DatabaseTarget, *, migrated: bool = True) -> AsyncGenerator[DatabaseTarget]:
    """A migrated database, or an empty one, dropped at the end of the block."""
    name = f"test_{secrets.token_hex(6)}"
    template = f"TEMPLATE {TEMPLATE} STRATEGY file_copy" if migrated else ""
    await execute(server, f"CREATE DATABASE {name} {template}")
    try:
        yield server.named(name)
    finally:
        await execute(server, f"DROP DATABASE {name} WITH (FORCE)")


async def execute(target: DatabaseTarget, statement: str) -> None:
    """Run *statement* on a connection of its own."""
    connection = await asyncpg.connect(**target.arguments())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
