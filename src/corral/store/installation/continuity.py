"""
Whether this database is the one that the service last used, or a restored, copied or promoted one.

The database stores its own identity. A copy carries the identity of the original, so the two differ:

- recovery to a point in time and a promoted standby begin another timeline;
- a dump restored on another server has another system identifier, one on the same server another database or table;
- `corral import` and releases before schema 18 leave instances in a database without an identity;
- a copied data directory of the embedded server has other files (*place*, from `server/embedded.py`).

A storage snapshot that is rolled back, and files of a server that are put back without such a recovery, have the same
identity and are not detected.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import asyncpg

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import Connection

_SERVER: Final = """
SELECT system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()
"""
_DATABASE: Final = """
SELECT oid || '/' || 'corral_last_look'::regclass::oid FROM pg_database WHERE datname = current_database()
"""
_IS_CONTINUED: Final = """
SELECT coalesce(identity = $1, NOT EXISTS (SELECT FROM corral_instances)) FROM corral_last_look
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
    return bool(await connection.fetchval(_IS_CONTINUED, present))


async def without_machine(connection: Connection) -> frozenset[InstanceId]:
    """
    The requests for which no machine is recorded, although a lost create call may have made one.

    A deleted request counts until it is terminated: its deletion may be newer than the restore. A failed one does not:
    if it failed after the restore, its create is recorded as in doubt.
    """
    rows = await connection.fetch(
        "SELECT id FROM corral_instances WHERE phase = ANY($1) AND provider_id IS NULL",
        [Phase.CREATING, Phase.DELETING],
    )
    return frozenset(InstanceId(row["id"]) for row in rows)


async def record(connection: Connection, present: str, server: datetime) -> None:
    """Store the *present* identity, unless the database *server* was restarted since it was read."""
    if await connection.fetchval("SELECT identity FROM corral_last_look") != present:
        await connection.execute(_RECORD, present, server)
