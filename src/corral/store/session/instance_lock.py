"""
The lock of an instance: one reconcile of it at a time.

The lock belongs to the connection, not to a transaction: it is held during calls to the provider and released when the
process ends. A frozen process holds it until another ends its sessions (`store/session/presence.py`). The lock only
saves work; the generation keeps two reconciles from overwriting each other, also the one of a process that was frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from corral.domain.instance import Instance, InstanceId
from corral.domain.operation import Operation
from corral.store.session.database import Connection
from corral.store.sql.instance_codec import instance_of
from corral.store.tables import operations

_OPERATION = ", ".join(f"o.{column}" for column in operations.COLUMNS.split(", "))
_ACQUIRE = f"""
WITH lock AS MATERIALIZED (SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS ours)
SELECT lock.ours, pg_postmaster_start_time() AS server, i.record, i.generation, i.created_by, i.look_at, {_OPERATION}
FROM lock
LEFT JOIN corral_instances AS i ON lock.ours AND i.id = $1
LEFT JOIN corral_operations AS o ON o.id = i.record ->> 'operation_id'
"""  # noqa: S608  # constants


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedInstance:
    """The record of an instance that this connection has locked; None where there is no row."""

    instance: Instance | None
    operation: Operation | None
    wake_at: datetime | None
    """When it is due for a reconcile."""
    server: datetime
    """When the database server was started."""


async def acquire(connection: Connection, instance_id: InstanceId) -> LockedInstance | None:
    """
    Take the lock and read the instance with its operation; None when another connection has the lock.

    The row may be from just before the lock was granted; then the first write is stale.
    """
    row = await connection.fetchrow(_ACQUIRE, instance_id)
    if not row["ours"]:
        return None
    try:
        return LockedInstance(
            instance=None if row["record"] is None else instance_of(row),
            operation=None if row["id"] is None else operations.operation_of(row),
            wake_at=row["look_at"],
            server=row["server"],
        )
    except BaseException:  # an unreadable record must not stay locked until the connection ends
        await release(connection, instance_id)
        raise


async def release(connection: Connection, instance_id: InstanceId) -> None:
    """Release the lock."""
    await connection.execute("SELECT pg_advisory_unlock(hashtextextended($1, 0))", instance_id)
