"""
The event log: one order without gaps, the same for every reader.

A reader that has seen number n never later finds a new event with a number up to n. Numbers are given after commit, by
the next reader (`corral_number_events`), one at a time; so a transaction that stays open for long delays no other
event. The events of one instance are in the order of its changes, because a change locks the instance's row before it
writes the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec

from corral.domain.errors import Failure
from corral.domain.events import Event, EventDraft, EventType, FleetEvent
from corral.domain.instance import InstanceId, OperationId, ProviderId
from corral.domain.lifecycle.pending_action import shown_failure
from corral.domain.lifecycle.phases import Phase
from corral.domain.timing import iso
from corral.store.session.database import Connection
from corral.store.session.notifications import notification
from corral.store.sql.bulk_insert import BulkInsert
from corral.store.sql.combined_statement import Write, only_if

TOPIC: Final = "events"
"""The topic of the notification on commit of events; it wakes the event streams of every process."""

NO_INSTANCE: Final = ""
"""The instance of an event that is not about one; its status and operation are empty, too."""

_OWN = "instance_id text, operation_id text, data jsonb"
_SHARED = "type text, status text, previous_status text, reason text, at timestamptz"

# Usually there is nothing to number; this finds out without taking the lock.
_NUMBER = "SELECT corral_number_events() WHERE EXISTS (SELECT FROM corral_events WHERE seq IS NULL)"

_READ = """
SELECT e.key, e.seq, e.instance_id, e.type, e.status, e.previous_status, e.operation_id, e.reason, e.at, e.data,
       e.at - o.created_at AS since_asked
FROM corral_events AS e LEFT JOIN corral_operations AS o ON o.id = e.operation_id
"""
_AFTER = _READ + "WHERE e.seq > $1 "
_AFTER_OF_INSTANCE = _AFTER + "AND e.instance_id = $3 "
_OLDEST = "ORDER BY e.seq LIMIT $2"
_NEWEST = "ORDER BY e.seq DESC LIMIT $2"
_ONE = _READ + "WHERE e.id = $1"


class _EventData(msgspec.Struct, rename="camel", omit_defaults=True):
    """What an event stores of its instance beside the columns."""

    provider_id: str | None = None
    failure: Failure | None = None
    data: dict[str, object] = {}
    labels: dict[str, str] = {}


_event_data = msgspec.json.Decoder(_EventData)


def append(drafts: Sequence[EventDraft], *, if_: str | None = None) -> Write:
    """
    Insert one event for each draft, if the write called *if_* changed a row; returns their `id`, ascending.

    It belongs in the transaction of the change, in the same statement or after the change was written.
    """
    return Write("new_events", *_append(if_).statement([_row(draft) for draft in drafts]))


def append_of_fleet(drafts: Sequence[FleetEvent]) -> Write:
    """Insert one event for each draft, at least one; returns their `id`, ascending."""
    return Write("new_events", *_append(None).statement([_fleet_row(draft) for draft in drafts]))


async def page(
    connection: Connection, *, after_seq: int, limit: int, instance_id: InstanceId | None = None, newest: bool = False
) -> list[Event]:
    """
    The next events after number *after_seq*, in order: everything committed before this call, up to *limit*.

    With *newest*, the last of them instead of the next, in the same order.
    Must not be called inside a transaction: no other process could number events until it ends.
    """
    await connection.execute(_NUMBER)
    chosen = _NEWEST if newest else _OLDEST
    if instance_id is None:
        rows = await connection.fetch(_AFTER + chosen, after_seq, limit)
    else:
        rows = await connection.fetch(_AFTER_OF_INSTANCE + chosen, after_seq, limit, instance_id)
    return [_event(row) for row in (reversed(rows) if newest else rows)]


async def last(connection: Connection) -> int:
    """The number of the newest committed event; 0 when there is none."""
    await connection.execute(_NUMBER)
    number: int = await connection.fetchval("SELECT coalesce(max(seq), 0) FROM corral_events")
    return number


async def one(connection: Connection, row_id: int) -> Event:
    """The committed event of this row, which must exist."""
    await connection.execute(_NUMBER)
    return _event(await connection.fetchrow(_ONE, row_id))


@cache
def _append(if_: str | None) -> BulkInsert:
    """Inserts events in the order they are given."""
    return BulkInsert(
        f"WITH notified AS (SELECT {notification(TOPIC)})"  # noqa: S608  # constants
        " INSERT INTO corral_events ({columns}) SELECT {columns} FROM {rows}"
        f" WHERE {only_if(if_)} ORDER BY place RETURNING id, (SELECT count(*) FROM notified)",
        own=_OWN,
        shared=_SHARED,
    )


def _row(draft: EventDraft) -> tuple[Any, ...]:
    change = draft.change
    after, before = change.after, change.before
    data: dict[str, object] = {"name": after.request.name}
    if after.placement is not None:
        data |= {"region": after.placement.region, "productId": after.placement.product_id}
    if draft.type is EventType.ENDING_SOON and after.lease is not None and after.lease.notice is not None:
        notice = after.lease.notice
        data |= {"cause": notice.cause, "reason": notice.reason, "endsAt": iso(notice.ends_at)}
    if draft.type is EventType.DATA_EXPIRING and after.announced_data is not None:
        data["dataKeptUntil"] = iso(after.announced_data.until)
    stored = _EventData(
        provider_id=after.provider_id, failure=shown_failure(after), data=data, labels=dict(after.labels)
    )
    return (
        after.id,
        after.operation_id,
        msgspec.json.encode(stored).decode(),
        draft.type,
        after.phase,
        None if before is None else before.phase,
        change.because,
        change.at,
    )


def _fleet_row(draft: FleetEvent) -> tuple[Any, ...]:
    stored = msgspec.json.encode(_EventData(data=dict(draft.data))).decode()
    return NO_INSTANCE, "", stored, draft.type, "", None, draft.reason, draft.at


def _event(row: Any) -> Event:
    stored = _event_data.decode(row["data"])
    status, before = row["status"], row["previous_status"]
    return Event(
        id=f"evt_{row['key'].hex}",
        seq=row["seq"],
        type=EventType(row["type"]),
        instance_id=None if row["instance_id"] == NO_INSTANCE else InstanceId(row["instance_id"]),
        provider_id=None if stored.provider_id is None else ProviderId(stored.provider_id),
        phase=None if not status else Phase(status),
        previous_phase=None if before is None else Phase(before),
        operation_id=OperationId(row["operation_id"]) if row["operation_id"] else None,
        reason=row["reason"],
        failure=stored.failure,
        at=row["at"],
        since_asked=row["since_asked"],
        labels=stored.labels,
        data=stored.data,
    )
