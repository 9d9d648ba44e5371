"""
The lock of an instance: whoever makes a pass over it has it, and everybody else leaves it alone meanwhile.

The lock belongs to the connection, not to a transaction: it is held during calls to the provider, and is gone with the
process that held it. A process that froze holds it until another ends its sessions (`store/session/presence.py`), and
then the
frozen pass cannot write any more. The lock only spares work; what keeps two passes from overwriting each other is the
generation.
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
SELECT lock.ours, pg_postmaster_start_time() AS server, i.record, i.generation, i.look_at, {_OPERATION}
FROM lock
LEFT JOIN corral_instances AS i ON lock.ours AND i.id = $1
LEFT JOIN corral_operations AS o ON o.id = i.record ->> 'operation_id'
"""  # noqa: S608  # constants


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedInstance:
    """What is remembered of an instance whose lock is ours; None where there is nothing."""

    instance: Instance | None
    operation: Operation | None
    wake_at: datetime | None
    """When it is to be looked at next."""
    server: datetime
    """When the database server was started."""


async def acquire(connection: Connection, instance_id: InstanceId) -> LockedInstance | None:
    """
    Take the lock and read the instance with its operation; None when another pass has it.

    What is read may be from just before the lock was ours, and then the first write is stale.
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
    except BaseException:  # an unreadable record must not stay locked for as long as the connection lives
        await release(connection, instance_id)
        raise


async def release(connection: Connection, instance_id: InstanceId) -> None:
    """Give the lock back."""
    await connection.execute("SELECT pg_advisory_unlock(hashtextextended($1, 0))", instance_id)
