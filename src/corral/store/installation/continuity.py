"""
Whether this database is the one that the service last used, or a restored, copied or promoted one.

The database stores its own identity. A copy carries the identity of the original, so the two differ:

- recovery to a point in time and a promoted standby begin another timeline;
- a dump restored on another server has another system identifier, one on the same server another database or table;
- `corral import` removes the identity, and leaves instances in a database that never had a listing; the first process
  stores `RESTORED`, which no database has, before it reads one;
- a copied data directory of the embedded server has other files (*place*, from `server/embedded.py`).

A storage snapshot that is rolled back, and files of a server that are put back without such a recovery, have the same
identity and are not detected.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import asyncpg

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.tables import Phase
from corral.store.session.database import Connection

RESTORED: Final = "restored"
"""The identity of an imported database until a process that waited for the settle time records its own."""
_SERVER: Final = """
SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()
"""
_DATABASE: Final = """
SELECT oid || '/' || 'corral_last_look'::regclass::oid FROM pg_database WHERE datname = current_database()
"""
_RECORDED: Final = """
SELECT identity, at IS NULL AND EXISTS (SELECT FROM corral_instances) AS is_imported FROM corral_last_look
"""
_RECORD: Final = "UPDATE corral_last_look SET identity = $1 WHERE pg_postmaster_start_time() = $2"
_UNKNOWN_SERVER: Final = (
    asyncpg.InsufficientPrivilegeError,  # the functions were revoked
    asyncpg.FeatureNotSupportedError,  # a server that only resembles PostgreSQL
    asyncpg.ObjectNotInPrerequisiteStateError,  # a standby: it has no timeline of its own before it is promoted
)


async def identity(connection: Connection, place: str) -> str:
    """The identity of the present database; without the server's part where that cannot be read."""
    try:
        server = await connection.fetchval(_SERVER)
    except _UNKNOWN_SERVER:
        server = "unknown"
    return f"{server}/{await connection.fetchval(_DATABASE)}/{place}"


async def is_continued(connection: Connection, present: str) -> bool:
    """Whether the database with the *present* identity was in use before, or is new."""
    row = await connection.fetchrow(_RECORDED)
    if row["identity"] is None:
        return not row["is_imported"]
    return bool(row["identity"] == present)


async def without_machine(connection: Connection) -> frozenset[InstanceId]:
    """The creates for which no machine is recorded."""
    rows = await connection.fetch(
        "SELECT id FROM corral_instances WHERE phase = $1 AND provider_id IS NULL", Phase.CREATING.value
    )
    return frozenset(InstanceId(row["id"]) for row in rows)


async def mark_restored(connection: Connection) -> None:
    """Store that a database without an identity is not continued, which its first listing would hide."""
    if await connection.fetchval("SELECT identity FROM corral_last_look") is None:
        await connection.execute("UPDATE corral_last_look SET identity = $1 WHERE identity IS NULL", RESTORED)


async def record(connection: Connection, present: str, server: datetime) -> None:
    """Store the *present* identity, unless the database *server* was restarted since it was read."""
    if await connection.fetchval("SELECT identity FROM corral_last_look") != present:
        await connection.execute(_RECORD, present, server)
