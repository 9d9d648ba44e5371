"""
The instances.

An update names the generation that was read; if the row changed since, it changes nothing and the caller raises
StaleError. Instances are encoded as a whole: the columns beside the record are only what is searched by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from corral.domain.budgets.holding import held
from corral.domain.errors import StaleError
from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.records import replace
from corral.store.session.database import Connection
from corral.store.session.notifications import notification
from corral.store.sql.bulk_insert import BulkInsert
from corral.store.sql.combined_statement import Write
from corral.store.sql.instance_codec import INSTANCE_COLUMNS, instance_of, labels_of, lease_of, record_of

TOPIC: Final = "instances"
"""The topic of the notification on commit of a changed instance, with its id; caches must drop it."""

_OWN = (
    "id text, name text, region text, created_at timestamptz, record jsonb, reserved_micro_usd bigint,"
    " reserved_at timestamptz"
)
_SHARED = (
    "goal text, phase text, provider_id text, generation int, create_in_doubt bool, look_at timestamptz, lease jsonb"
)
_NEW = f"{_SHARED}, created_by text, product_name text, labels jsonb, protected bool"
"""An update leaves what only new rows name as it is."""
_INSERT = "INSERT INTO corral_instances ({columns}) SELECT {columns} FROM {rows}"
_ADD = BulkInsert(f"{_INSERT} RETURNING id", own=_OWN, shared=_NEW)
# The subquery is evaluated once, before the first row.
_ADD_RESERVING = BulkInsert(
    f"{_INSERT} WHERE (SELECT corral_reserve(${_ADD.arguments + 1}::text[], ${_ADD.arguments + 2}::bigint[],"
    f" ${_ADD.arguments + 3}::timestamptz)) RETURNING id",
    own=_OWN,
    shared=_NEW,
)
_ADD_UNLESS_KNOWN = BulkInsert(f"{_INSERT} ON CONFLICT (provider_id) DO NOTHING RETURNING id", own=_OWN, shared=_NEW)
# The rows are locked in the order of their ids: two such statements at a time would wait for each other otherwise.
_UPDATE = f"""
WITH locked AS MATERIALIZED (SELECT id FROM corral_instances WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE)
UPDATE corral_instances AS i
SET goal = n.goal, phase = n.phase, region = n.region, provider_id = n.provider_id, generation = i.generation + 1,
    create_in_doubt = n.create_in_doubt, look_at = n.look_at, record = n.record, lease = n.lease,
    reserved_micro_usd = n.reserved_micro_usd, reserved_at = n.reserved_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::jsonb[], $6::bigint[], $7::timestamptz[],
            $8::text[], $9::text[], $10::text[], $11::int[], $12::bool[], $13::timestamptz[], $14::jsonb[])
  AS n (id, name, region, created_at, record, reserved_micro_usd, reserved_at, goal, phase, provider_id, generation,
        create_in_doubt, look_at, lease)
JOIN locked USING (id)
WHERE i.id = n.id AND i.generation = n.generation
RETURNING i.id, {notification(TOPIC, "i.id")}
"""  # noqa: S608  # constants
# One, without arrays: PostgreSQL plans a join with arrays again each time, because the plan depends on their length.
_UPDATE_ONE = f"""
UPDATE corral_instances AS i
SET region = $2, record = $3::jsonb, reserved_micro_usd = $4, reserved_at = $5, goal = $6, phase = $7, provider_id = $8,
    generation = i.generation + 1, create_in_doubt = $10, look_at = $11, lease = $12::jsonb
WHERE i.id = $1 AND i.generation = $9
RETURNING i.id, {notification(TOPIC, "i.id")}
"""  # noqa: S608  # constants

# Literal, because an index covers what is not terminated, and PostgreSQL does not use it for a parameter.
_PRESENT = f"phase <> '{Phase.TERMINATED.value}'"


def add(instances: Sequence[Instance], wake_at: datetime | None = None) -> Write:
    """Insert new instances, at least one."""
    return Write("new_instances", *_ADD.statement([_new_row(instance, wake_at) for instance in instances]))


def add_reserving(
    instances: Sequence[Instance], amounts: Mapping[str, int], *, now: datetime, wake_at: datetime | None
) -> Write:
    """
    Insert new instances, at least one, if *amounts*, by scope, fit into what is known to be left of every budget.

    Returns no row, and inserts nothing, if they may not fit: then the budgets must be counted.
    """
    sql, arguments = _ADD_RESERVING.statement([_new_row(instance, wake_at) for instance in instances])
    return Write("new_instances", sql, [*arguments, list(amounts), list(amounts.values()), now])


def add_unless_known(instance: Instance, wake_at: datetime | None) -> Write:
    """Insert a new instance; returns no row, and inserts nothing, if a record has the same provider id."""
    return Write("new_instance", *_ADD_UNLESS_KNOWN.statement([_new_row(instance, wake_at)]))


def update(instance: Instance, *, wake_at: datetime | None) -> Write:
    """Replace the record of *instance*; returns no row, and changes nothing, if it changed since it was read."""
    instance_id, _name, region, _created_at, *rest = _row(instance, wake_at)
    return Write("updated_instance", _UPDATE_ONE, (instance_id, region, *rest))


def update_many(instances: Sequence[Instance], wake_at: Sequence[datetime | None]) -> Write:
    """Replace the record of each instance that did not change since it was read; returns the `id` of those."""
    columns = [list(column) for column in zip(*map(_row, instances, wake_at), strict=True)]
    return Write("updated_instances", _UPDATE, columns)


def stale(instance: Instance) -> StaleError:
    """The error for an update that returned no row."""
    return StaleError(f"{instance.id} was changed by another writer meanwhile")


def updated(instance: Instance) -> Instance:
    """*instance* as an update leaves it: with the next generation, and without a reservation that is released."""
    return replace(instance, generation=instance.generation + 1, reservation=held(instance))


async def load(connection: Connection, instance_id: str) -> Instance | None:
    """One instance, by our id or the provider's."""
    return next(iter(await _find(connection, "id = $1 OR provider_id = $1", instance_id)), None)


async def are_unchanged(connection: Connection, read: Sequence[Instance]) -> list[bool]:
    """Whether each instance is still as it was read or written."""
    found = await connection.fetch(
        "SELECT id, generation FROM corral_instances WHERE id = ANY($1::text[])", [instance.id for instance in read]
    )
    generations = {row["id"]: row["generation"] for row in found}
    return [generations.get(instance.id) == instance.generation for instance in read]


async def load_for_update(connection: Connection, instance_id: str) -> Instance | None:
    """One instance, by our id or the provider's, with its row locked until this transaction ends."""
    return next(iter(await _find(connection, "id = $1 OR provider_id = $1 FOR UPDATE", instance_id)), None)


async def watched(connection: Connection) -> list[Instance]:
    """Every instance with a provider instance that exists, may exist or may come back."""
    return await _find(connection, f"{_PRESENT} AND (provider_id IS NOT NULL OR create_in_doubt)")


async def in_doubt(connection: Connection) -> list[Instance]:
    """Instances of which the last create call has no known outcome."""
    return await _find(connection, "create_in_doubt")


async def listed_ready(connection: Connection, limit: int) -> list[Instance]:
    """Ready instances that we created and that no listing was found to lack, newest first."""
    condition = (
        "phase = $1 AND (record->'order'->>'template_id' <> '' OR record->'order'->'container'->>'image' IS NOT NULL)"
        " AND record->>'unlisted_since' IS NULL"
        " ORDER BY created_at DESC LIMIT $2"
    )
    return await _find(connection, condition, Phase.READY, limit)


async def unlisted(connection: Connection) -> tuple[int, int]:
    """How many existing machines the provider's list is known to lack, and how many instances are ready in all."""
    row = await connection.fetchrow(
        "SELECT count(*) FILTER (WHERE record->>'unlisted_since' IS NOT NULL) AS lacking,"  # noqa: S608  # constants
        f" count(*) FILTER (WHERE phase = $1) AS ready FROM corral_instances WHERE {_PRESENT}",
        Phase.READY,
    )
    return row["lacking"], row["ready"]


async def by_ids(
    connection: Connection, ids: Sequence[InstanceId], provider_ids: Sequence[str]
) -> dict[InstanceId, Instance]:
    """The instances with one of *ids* or *provider_ids*, also terminated ones."""
    found = await _find(connection, "id = ANY($1) OR provider_id = ANY($2)", list(ids), list(provider_ids))
    return {instance.id: instance for instance in found}


async def present(connection: Connection) -> list[Instance]:
    """Every instance that is not terminated."""
    return await _find(connection, _PRESENT)


async def live_named(connection: Connection, name: str) -> list[Instance]:
    """
    Instances called *name* that are not being deleted, newest first.

    Failed ones without a machine are left out; if all are such, returns the newest.
    """
    wanted = await _find(connection, "name = $1 AND goal <> $2 ORDER BY created_at DESC, id", name, Goal.GONE)
    return [one for one in wanted if one.provider_id is not None or one.phase is not Phase.FAILED] or wanted[:1]


async def possibly_stuck(
    connection: Connection, phases: Sequence[Phase], *, before: datetime, limit: int = 500
) -> list[Instance]:
    """Instances that may be stuck: in one of *phases* since *before*, in doubt, or missing at the provider."""
    condition = (
        "(phase = ANY($1) AND (record->>'phase_since')::timestamptz <= $2) OR create_in_doubt"
        f" OR ({_PRESENT} AND record->>'missing_since' IS NOT NULL) ORDER BY created_at LIMIT $3"
    )
    return await _find(connection, condition, list(phases), before, limit)


async def wake_by(connection: Connection, instance_id: InstanceId, at: datetime) -> None:
    """Make the instance due for a reconcile at *at*, unless it is due earlier."""
    await connection.execute(
        "UPDATE corral_instances SET look_at = $2 WHERE id = $1 AND (look_at IS NULL OR look_at > $2)", instance_id, at
    )


async def due(connection: Connection, now: datetime, limit: int = 500) -> list[tuple[InstanceId, Phase]]:
    """Instances that are due for a reconcile, with their phases; clears the time at which they were due."""
    rows = await connection.fetch(
        "UPDATE corral_instances SET look_at = NULL WHERE id IN"
        " (SELECT id FROM corral_instances WHERE look_at <= $1 ORDER BY look_at LIMIT $2 FOR UPDATE SKIP LOCKED)"
        " RETURNING id, phase",
        now,
        limit,
    )
    return [(InstanceId(row["id"]), Phase(row["phase"])) for row in rows]


async def awaiting_provider(connection: Connection, phases: Sequence[Phase]) -> list[str | None]:
    """
    The provider ids of the instances in one of *phases* that wait for the provider.

    One that has no machine (None) waits only if its create call is in doubt. One that was seen running, and is to run,
    waits for Corral, unless a call was sent for it.
    """
    rows = await connection.fetch(
        "SELECT provider_id FROM corral_instances WHERE phase = ANY($1) AND"
        " (create_in_doubt AND record->>'doubted_at' IS NOT NULL OR provider_id IS NOT NULL AND"
        " (goal <> $2 OR record->>'sighting' IS DISTINCT FROM $3 OR record->>'owed' IS NOT NULL))",
        list(phases),
        Goal.RUNNING,
        Sighting.RUNNING,
    )
    return [row["provider_id"] for row in rows]


async def moving(connection: Connection, phases: Sequence[Phase]) -> list[Instance]:
    """Instances in one of *phases* that have a provider id."""
    return await _find(connection, "phase = ANY($1) AND provider_id IS NOT NULL", list(phases))


async def expected_machines(connection: Connection) -> list[tuple[InstanceId, ProviderId]]:
    """Instances with their machines, as far as these are expected to exist: not deleted, and not known to be absent."""
    rows = await connection.fetch(
        "SELECT id, provider_id FROM corral_instances WHERE provider_id IS NOT NULL AND phase <> $1 AND goal <> $2"
        " AND record->>'missing_since' IS NULL AND record->>'sighting' IS DISTINCT FROM $3",
        Phase.TERMINATED,
        Goal.GONE,
        Sighting.ABSENT,
    )
    return [(InstanceId(row["id"]), ProviderId(row["provider_id"])) for row in rows]


async def none_yet(connection: Connection) -> bool:
    """Whether there is no instance, not even a terminated one."""
    found: bool = await connection.fetchval("SELECT NOT EXISTS (SELECT FROM corral_instances)")
    return found


async def _find(connection: Connection, condition: str, *arguments: object) -> list[Instance]:
    """The instances for which *condition*, SQL that may end with an order and a limit, holds."""
    query = f"SELECT {INSTANCE_COLUMNS} FROM corral_instances WHERE {condition}"  # noqa: S608  # constants
    rows = await connection.fetch(query, *arguments)
    return [instance_of(row) for row in rows]


def _new_row(instance: Instance, wake_at: datetime | None) -> tuple[Any, ...]:
    added = (instance.created_by, instance.request.product_name, labels_of(instance), instance.protected)
    return (*_row(instance, wake_at), *added)


def _row(instance: Instance, wake_at: datetime | None) -> tuple[Any, ...]:
    reservation = held(instance)
    return (
        instance.id,
        instance.request.name,
        None if instance.placement is None else instance.placement.region,
        instance.created_at,
        record_of(instance),
        None if reservation is None else reservation.micro_usd,
        None if reservation is None else reservation.at,
        instance.goal,
        instance.phase,
        instance.provider_id,
        instance.generation,
        instance.create_in_doubt,
        wake_at,
        lease_of(instance),
    )
