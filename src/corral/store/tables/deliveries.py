"""
The outbox: deliveries, their attempts, and the receivers that asked for no more messages.

A delivery is written in the transaction of its event, so an event is sent if and only if its change was committed.
The column `instance_id` has the subject of the event: the id of an instance, or a text such as `budget:NAME`.
URLs may hold secrets: they are read to be called, and everything shown has the host alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from corral.domain.delivery import Delivery, DeliveryAttempt, DeliveryId, DeliveryStatus
from corral.domain.instance import Instance
from corral.domain.operation import Operation
from corral.store.session.database import SWEEP_SECONDS, Connection
from corral.store.sql.combined_statement import Write
from corral.store.sql.instance_codec import instance_of, record_of

HISTORY = 20
"""Attempts shown of one delivery: two rounds of eight tries, and a few more."""

_ADD = """
INSERT INTO corral_deliveries (event_id, instance_id, url, host, next_at, created_at, snapshot)
SELECT event_id, instance_id, url, host, at, at, snapshot
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])
  AS new (event_id, instance_id, url, host, at, snapshot)
ORDER BY event_id
"""
_EVENT_ID = "'evt_' || replace(e.key::text, '-', '') AS event_id"
_OLDEST = f"""
SELECT d.id, d.event_id AS event_row, {_EVENT_ID}, d.url, d.body, d.snapshot, d.tries, d.next_at,
       EXISTS (SELECT FROM corral_silenced_receivers AS s WHERE s.instance_id = d.instance_id AND s.url = d.url)
         AS silenced
FROM corral_deliveries AS d JOIN corral_events AS e ON e.id = d.event_id
WHERE d.instance_id = $1 AND d.status = 'pending'
ORDER BY d.event_id LIMIT 1
"""  # noqa: S608  # constants
_RECORD = """
WITH attempted AS (
    UPDATE corral_deliveries
    SET attempts = attempts + 1, tries = tries + 1, status = $2::text, next_at = $3,
        ended_at = CASE WHEN $2::text = 'pending' THEN NULL ELSE $4::timestamptz END
    WHERE id = $1
    RETURNING id, attempts, instance_id, url
), silenced AS (
    INSERT INTO corral_silenced_receivers (instance_id, url)
    SELECT instance_id, url FROM attempted WHERE $2::text = 'stopped'
    ON CONFLICT DO NOTHING
)
INSERT INTO corral_delivery_attempts (delivery_id, number, at, http_status, duration_ms, error, fate)
SELECT id, attempts, $4::timestamptz, $5, $6, $7, $8 FROM attempted
"""
_STOP = """
UPDATE corral_deliveries AS d SET status = 'stopped', ended_at = $2
WHERE d.instance_id = $1 AND d.status = 'pending' AND EXISTS (
    SELECT FROM corral_silenced_receivers AS s WHERE s.instance_id = d.instance_id AND s.url = d.url
)
"""
_REDELIVER = """
WITH pending AS (
    UPDATE corral_deliveries SET status = 'pending', tries = 0, next_at = $2, ended_at = NULL WHERE id = $1
    RETURNING instance_id, url
), unsilenced AS (
    DELETE FROM corral_silenced_receivers AS s USING pending AS p WHERE s.instance_id = p.instance_id AND s.url = p.url
)
SELECT true FROM pending
"""
_MATCHING = """
($1::bigint IS NULL OR d.id = $1) AND ($2::text IS NULL OR d.instance_id = $2) AND ($3::text IS NULL OR d.status = $3)
"""
_PAGE = f"""
SELECT d.id, {_EVENT_ID}, e.seq, e.type AS event, d.instance_id AS subject, NULLIF(e.instance_id, '') AS instance_id,
       d.host, d.status, d.attempts, d.created_at, d.ended_at,
       CASE WHEN d.status = 'pending' THEN d.next_at END AS next_at
FROM corral_deliveries AS d JOIN corral_events AS e ON e.id = d.event_id
WHERE {_MATCHING} ORDER BY d.id DESC LIMIT $4 OFFSET $5
"""  # noqa: S608  # constants
_HISTORY = """
SELECT delivery_id, at, http_status, duration_ms, error, fate AS outcome FROM (
    SELECT *, row_number() OVER (PARTITION BY delivery_id ORDER BY number DESC) AS age
    FROM corral_delivery_attempts WHERE delivery_id = ANY($1)
) AS latest WHERE age <= $2 ORDER BY delivery_id, age
"""


class Snapshot(msgspec.Struct):
    """An instance and its operation as they were at an event."""

    record: str
    operation: Operation | None

    @classmethod
    def of(cls, instance: Instance, operation: Operation | None) -> Snapshot:
        """The snapshot of *instance* and *operation*."""
        return cls(record=record_of(instance), operation=operation)

    @property
    def instance(self) -> Instance:
        """The instance as it was."""
        return instance_of({"record": self.record, "generation": 0})


_snapshots = msgspec.json.Decoder(Snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """An event to be sent to a receiver."""

    event_row: int
    subject: str
    """The id of the instance, or what else the event is about: deliveries of one subject are sent in order."""
    snapshot: Snapshot | None
    """None: the event is not about one instance."""
    url: str = field(repr=False)
    host: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The next delivery of a subject."""

    id: DeliveryId
    event_row: int
    event_id: str
    url: str = field(repr=False)
    body: bytes | None
    """None until the first attempt."""
    snapshot: Snapshot | None
    """None once there is a body, for an event that is not about one instance, and in deliveries of earlier releases."""
    tries: int
    """Attempts since the delivery was created or last redelivered."""
    next_at: datetime
    silenced: bool
    """Whether its receiver has asked for no more messages about this subject."""


def add(outgoing: Sequence[NewDelivery]) -> Write:
    """Insert deliveries, at least one, into the outbox; it belongs in the transaction of their events."""
    rows = [(o.event_row, o.subject, o.url, o.host, o.at, _text(o.snapshot)) for o in outgoing]
    return Write("new_deliveries", _ADD, [list(column) for column in zip(*rows, strict=True)])


def _text(snapshot: Snapshot | None) -> str | None:
    return None if snapshot is None else msgspec.json.encode(snapshot).decode()


@asynccontextmanager
async def sole_sender(connection: Connection, subject: str) -> AsyncGenerator[bool]:
    """
    Whether this process is the only sender for the subject for the length of the block; never waits.

    The lock belongs to the connection, not to a transaction: it is held while a receiver responds.
    """
    name = f"deliveries:{subject}"
    alone: bool = await connection.fetchval("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name)
    try:
        yield alone
    finally:
        if alone:
            await connection.execute("SELECT pg_advisory_unlock(hashtextextended($1, 0))", name)


async def oldest(connection: Connection, subject: str) -> Pending | None:
    """The oldest pending delivery of this subject, which is sent before the others; None when nothing is pending."""
    row = await connection.fetchrow(_OLDEST, subject)
    if row is None:
        return None
    snapshot = None if row["snapshot"] is None else _snapshots.decode(row["snapshot"])
    stored: dict[str, Any] = {**row, "snapshot": snapshot}
    return Pending(**stored)


async def keep_body(connection: Connection, delivery_id: DeliveryId, body: bytes) -> None:
    """Store the body before it is sent, and drop the snapshot it was made from."""
    await connection.execute("UPDATE corral_deliveries SET body = $2, snapshot = NULL WHERE id = $1", delivery_id, body)


async def record(
    connection: Connection,
    delivery_id: DeliveryId,
    attempt: DeliveryAttempt,
    *,
    status: DeliveryStatus,
    next_at: datetime,
) -> None:
    """Store an attempt and the new state; STOPPED also silences the receiver for the instance."""
    await connection.execute(
        _RECORD,
        delivery_id,
        status,
        next_at,
        attempt.at,
        attempt.http_status,
        attempt.duration_ms,
        attempt.error,
        attempt.outcome,
    )


async def stop_silenced(connection: Connection, subject: str, now: datetime) -> None:
    """Stop what is pending for receivers that asked for no more messages about this subject."""
    await connection.execute(_STOP, subject, now)


async def redeliver(connection: Connection, delivery_id: DeliveryId, now: datetime) -> bool:
    """Make a delivery pending again, with all its tries, and unsilence its receiver; False when there is none."""
    found: bool | None = await connection.fetchval(_REDELIVER, delivery_id, now)
    return found is not None


async def page(
    connection: Connection,
    *,
    delivery_id: DeliveryId | None = None,
    instance_id: str | None = None,
    status: DeliveryStatus | None = None,
    limit: int = 1,
    offset: int = 0,
) -> tuple[list[Delivery], int]:
    """One page, newest first, and how many there are in all."""
    filters = (delivery_id, instance_id, status)
    total: int = await connection.fetchval(f"SELECT count(*) FROM corral_deliveries AS d WHERE {_MATCHING}", *filters)  # noqa: S608
    rows = await connection.fetch(_PAGE, *filters, limit, offset)
    history: dict[int, list[dict[str, Any]]] = {row["id"]: [] for row in rows}
    for attempt in await connection.fetch(_HISTORY, list(history), HISTORY):
        history[attempt["delivery_id"]].append(dict(attempt))
    return [msgspec.convert({**row, "history": history[row["id"]]}, Delivery) for row in rows], total


async def overdue(connection: Connection, before: datetime, limit: int = 500) -> list[str]:
    """The subjects with a delivery that should have been sent before this instant."""
    rows = await connection.fetch(
        "SELECT DISTINCT instance_id FROM corral_deliveries WHERE status = 'pending' AND next_at < $1 LIMIT $2",
        before,
        limit,
    )
    return [row["instance_id"] for row in rows]


async def remove_ended(connection: Connection, before: datetime) -> int:
    """Delete deliveries that ended before this instant, and their attempts; returns how many."""
    done: str = await connection.execute(
        "DELETE FROM corral_deliveries WHERE ended_at < $1", before, timeout=SWEEP_SECONDS
    )
    return int(done.removeprefix("DELETE "))
