"""
The locks of instances: one reconcile of an instance at a time.

A lock belongs to a session, not to a transaction: it is held during calls to the provider and released when the
process ends. A frozen process holds it until another ends its sessions (`store/session/presence.py`). The lock only
saves work; the generation keeps two reconciles from overwriting each other, also the one of a process that was frozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from corral.domain.instance import Instance, InstanceId
from corral.domain.operation import Operation
from corral.store.session.database import Connection
from corral.store.sql.instance_codec import INSTANCE_COLUMNS, instance_of
from corral.store.tables import operations

_INSTANCE = ", ".join(f"i.{column}" for column in INSTANCE_COLUMNS.split(", "))
_OPERATION = ", ".join(f"o.{column}" for column in operations.COLUMNS.split(", "))
# For one instance, run for many in one round trip: PostgreSQL would plan a join with an array again each time.
_ACQUIRE = f"""
WITH lock AS MATERIALIZED (SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS ours)
SELECT lock.ours, pg_postmaster_start_time() AS server, {_INSTANCE}, i.look_at, {_OPERATION}
FROM lock
LEFT JOIN corral_instances AS i ON lock.ours AND i.id = $1
LEFT JOIN corral_operations AS o ON o.id = i.record ->> 'operation_id'
"""  # noqa: S608  # constants
_RELEASE = "SELECT pg_advisory_unlock(hashtextextended(id, 0)) FROM unnest($1::text[]) AS id"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedInstance:
    """The record of an instance that this session has locked; None where there is no row."""

    instance: Instance | None
    operation: Operation | None
    wake_at: datetime | None
    """When it is due for a reconcile."""
    server: datetime
    """When the database server was started."""


async def acquire(
    connection: Connection, instance_ids: Sequence[InstanceId]
) -> list[LockedInstance | Exception | None]:
    """
    Take locks and read the instances with their operations, in one round trip.

    Returns None where another session has the lock, and an error, with the lock taken, for a record that cannot be
    read. A session can take a lock that it has again; it has to release it as often. A row may be from just before its
    lock was granted; then the first write is stale.
    """
    rows = await connection.fetchmany(_ACQUIRE, [(instance_id,) for instance_id in instance_ids])
    return [_locked(row) if row["ours"] else None for row in rows]


def _locked(row: Any) -> LockedInstance | Exception:
    try:
        return LockedInstance(
            instance=None if row["record"] is None else instance_of(row),
            operation=None if row["id"] is None else operations.operation_of(row),
            wake_at=row["look_at"],
            server=row["server"],
        )
    except Exception as error:  # noqa: BLE001  # it is the error of this instance, and of no other
        return error


async def release(connection: Connection, instance_ids: Sequence[InstanceId]) -> None:
    """Release the locks."""
    await connection.execute(_RELEASE, list(instance_ids))
