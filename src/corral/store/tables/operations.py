"""The operations: what was requested of an instance, and its progress."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from corral.domain.instance import InstanceId, OperationId
from corral.domain.operation import Operation
from corral.store.session.database import Connection
from corral.store.sql.bulk_insert import BulkInsert
from corral.store.sql.combined_statement import Write, only_if

COLUMNS = "id, instance_id, kind, status, phases, error, created_at, correlation_id, traceparent"
_ADD = BulkInsert(
    "INSERT INTO corral_operations ({columns}) SELECT {columns} FROM {rows}",
    own="id text, instance_id text, phases jsonb, created_at timestamptz, correlation_id text, traceparent text",
    shared="kind text, status text, error jsonb",
)
_UPDATE = "UPDATE corral_operations SET status = $2, phases = $3::jsonb, error = $4::jsonb WHERE id = $1"


def add(operations: Sequence[Operation], *, if_: str | None = None) -> Write:
    """Insert new operations, at least one, if the write called *if_* changed a row."""
    return Write("new_operations", *_ADD.statement([_row(operation) for operation in operations], if_=if_))


def update(operation: Operation, *, if_: str | None = None) -> Write:
    """
    Replace the record of *operation*, if the write called *if_* changed a row.

    The generation of its instance guards it: run it in the transaction that updates the instance.
    """
    _, _, phases, _, _, _, _, status, error = _row(operation)
    return Write("updated_operation", f"{_UPDATE} AND {only_if(if_)}", (operation.id, status, phases, error))


async def load(connection: Connection, operation_id: str) -> Operation | None:
    """One operation."""
    row = await connection.fetchrow(f"SELECT {COLUMNS} FROM corral_operations WHERE id = $1", operation_id)  # noqa: S608
    return None if row is None else operation_of(row)


async def of_instance(connection: Connection, instance_id: InstanceId, limit: int = 100) -> list[Operation]:
    """The operations of one instance, newest first."""
    rows = await connection.fetch(
        f"SELECT {COLUMNS} FROM corral_operations WHERE instance_id = $1"  # noqa: S608  # constants
        " ORDER BY created_at DESC LIMIT $2",
        instance_id,
        limit,
    )
    return [operation_of(row) for row in rows]


async def of_many(connection: Connection, ids: Sequence[OperationId]) -> dict[OperationId, Operation]:
    """The operations with these *ids*, by id."""
    rows = await connection.fetch(f"SELECT {COLUMNS} FROM corral_operations WHERE id = ANY($1)", list(ids))  # noqa: S608
    return {operation.id: operation for operation in map(operation_of, rows)}


def _row(operation: Operation) -> tuple[Any, ...]:
    error = None if operation.error is None else msgspec.json.encode(operation.error).decode()
    return (
        operation.id,
        operation.instance_id,
        msgspec.json.encode(operation.stamps).decode(),
        operation.created_at,
        operation.correlation_id,
        operation.traceparent,
        operation.kind,
        operation.status,
        error,
    )


def operation_of(row: Any) -> Operation:
    """The operation that *row* stores."""
    stamps = msgspec.json.decode(row["phases"], type=dict[str, datetime])
    error = None if row["error"] is None else msgspec.json.decode(row["error"])
    return msgspec.convert({**row, "stamps": stamps, "error": error}, Operation)
