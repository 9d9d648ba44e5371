"""
Leases: the column `lease` of an instance, and the measurements by which an idle one is found.

Measurements have a table of their own: they are written far more often than the instance, and a new one alone changes
nothing that is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.leases.lease import EndCause, Signal
from corral.domain.leases.samples import IdleSample
from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import SWEEP_SECONDS, Connection
from corral.store.session.notifications import notification
from corral.store.sql.combined_statement import Write
from corral.store.sql.instance_codec import lease_of, record_of
from corral.store.tables.instances import TOPIC

_CHANGE: Final = f"""
UPDATE corral_instances AS i
SET lease = $2::jsonb, record = $3::jsonb, look_at = LEAST(i.look_at, $5::timestamptz), generation = i.generation + 1
WHERE i.id = $1 AND i.generation = $4
RETURNING i.id, {notification(TOPIC, "i.id")}
"""  # noqa: S608  # constants
# Literal, because an index covers these rows, and PostgreSQL does not use it for parameters.
_HAS_IDLE_RULE: Final = f"i.phase = '{Phase.READY.value}' AND i.lease #>> '{{lease,idle,after}}' IS NOT NULL"
_MEASURED: Final = f"""
SELECT i.id, i.provider_id, (i.lease #>> '{{lease,idle,after}}')::interval AS after,
       COALESCE((i.record #>> '{{order,gpu_num}}')::int, 1) AS gpus,
       CASE WHEN i.lease #>> '{{notice,cause}}' = '{EndCause.IDLE.value}'
            THEN (i.lease #>> '{{notice,ends_at}}')::timestamptz END AS ends_at
FROM corral_instances AS i
WHERE {_HAS_IDLE_RULE} AND i.provider_id IS NOT NULL
  AND i.lease #> '{{lease,idle,signals}}' ?| '{{{Signal.GPU.value},{Signal.CPU.value}}}'
"""  # noqa: S608  # constants
_NEWEST: Final = """
SELECT id, newest.at FROM unnest($1::text[]) AS id,
LATERAL (SELECT COALESCE(s.newest_at, s.at) AS at FROM corral_idle_samples AS s
         WHERE s.instance_id = id ORDER BY s.at DESC LIMIT 1) AS newest
"""
SAMPLE_COLUMNS: Final = "COALESCE(newest_at, at) AS at, gpu, cpu, CASE WHEN newest_at IS NOT NULL THEN at END, measured"
"""Of a measurement, as `sample_of` reads them."""
_SAMPLES: Final = f"SELECT {SAMPLE_COLUMNS} FROM corral_idle_samples WHERE instance_id = $1 ORDER BY 1"  # noqa: S608
# Of one instant the highest value counts: a load that was once measured was there. A summary replaces an unknown one
# and becomes unknown, because it is made of all of its time.
_ADD: Final = """
WITH outdated AS (DELETE FROM corral_idle_samples WHERE instance_id = $1 AND COALESCE(newest_at, at) < $2)
INSERT INTO corral_idle_samples AS s (instance_id, at, gpu, cpu, newest_at, measured)
SELECT $1, * FROM unnest($3::timestamptz[], $4::float8[], $5::float8[], $6::timestamptz[], $7::interval[])
ON CONFLICT (instance_id, at) DO UPDATE
SET gpu = CASE WHEN excluded.newest_at IS NULL OR excluded.gpu IS NOT NULL THEN GREATEST(s.gpu, excluded.gpu) END,
    cpu = CASE WHEN excluded.newest_at IS NULL OR excluded.cpu IS NOT NULL THEN GREATEST(s.cpu, excluded.cpu) END,
    newest_at = GREATEST(s.newest_at, excluded.newest_at), measured = GREATEST(s.measured, excluded.measured)
"""
_RECORDED_TIMES: Final = ", ".join(
    f"(lease #>> '{{{path}}}')::timestamptz"
    for path in ("notice,given_at", "notice,awaited_since", "last_used_at", "scheduled_at")
)
_WAKE_UNPLANNED: Final = f"""
UPDATE corral_instances SET look_at = $1
WHERE (look_at IS NULL AND phase = '{Phase.READY.value}'
       AND (lease #>> '{{lease,max_duration}}' IS NOT NULL OR lease #>> '{{lease,schedule,stop}}' IS NOT NULL))
   OR (look_at > $1 AND lease IS NOT NULL AND phase <> '{Phase.TERMINATED.value}'
       AND GREATEST({_RECORDED_TIMES}) > $2)
"""  # noqa: S608  # constants
_WITHDRAW: Final = f"""
UPDATE corral_instances AS i
SET lease = i.lease - 'notice', look_at = LEAST(i.look_at, $1::timestamptz), generation = i.generation + 1
WHERE i.lease #>> '{{notice}}' IS NOT NULL AND i.phase <> '{Phase.TERMINATED.value}'
RETURNING {notification(TOPIC, "i.id")}
"""  # noqa: S608  # constants
_SWEEP: Final = f"""
DELETE FROM corral_idle_samples AS s
WHERE NOT EXISTS (SELECT FROM corral_instances AS i WHERE i.id = s.instance_id AND {_HAS_IDLE_RULE})
"""  # noqa: S608  # constants


class MeasuredInstance(NamedTuple):
    """An instance that is measured, because it is ready and its lease has an idle rule with a measured signal."""

    id: InstanceId
    provider_id: ProviderId
    after: timedelta
    """How long it must be idle."""
    gpus: int
    """How many it has."""
    ends_at: datetime | None
    """When it ends, if a notice was given because it is idle."""


def change(instance: Instance, *, wake_at: datetime | None) -> Write:
    """
    Replace the lease of *instance*; returns no row, and changes nothing, if it changed since it was read.

    It is reconciled by *wake_at*; None leaves the time at which it is due.
    """
    arguments = (instance.id, lease_of(instance), record_of(instance), instance.generation, wake_at)
    return Write("leased_instance", _CHANGE, arguments)


async def measured(connection: Connection) -> list[MeasuredInstance]:
    """Every instance that is measured."""
    rows = await connection.fetch(_MEASURED)
    return [MeasuredInstance(InstanceId(row[0]), ProviderId(row[1]), row[2], row[3], row[4]) for row in rows]


async def newest_samples(connection: Connection, ids: Sequence[InstanceId]) -> dict[InstanceId, datetime]:
    """The time of the newest measurement of each of *ids* that has one."""
    rows = await connection.fetch(_NEWEST, list(ids))
    return {InstanceId(row["id"]): row["at"] for row in rows if row["at"] is not None}


async def samples(connection: Connection, instance_id: InstanceId) -> list[IdleSample]:
    """The measurements of one instance that are kept, in order."""
    return [sample_of(*row) for row in await connection.fetch(_SAMPLES, instance_id)]


def sample_of(
    at: datetime, gpu: float | None, cpu: float | None, since: datetime | None, measured: timedelta | None
) -> IdleSample:
    """The measurement or summary in the columns `SAMPLE_COLUMNS`."""
    return IdleSample(at=at, gpu=gpu, cpu=cpu, since=since, measured=measured or timedelta(0))


async def add_samples(
    connection: Connection, instance_id: InstanceId, new: Sequence[IdleSample], *, oldest: datetime
) -> None:
    """Store *new* measurements or summaries of one instance, and delete those before *oldest*."""
    columns = (
        [each.since or each.at for each in new],
        [each.gpu for each in new],
        [each.cpu for each in new],
        [None if each.since is None else each.at for each in new],
        [None if each.since is None else each.measured for each in new],
    )
    await connection.execute(_ADD, instance_id, oldest, *columns)


async def wake_unplanned(connection: Connection, at: datetime, *, latest: datetime) -> int:
    """
    Make ready instances due at *at* whose lease has a fixed end and no reconcile is planned; returns how many.

    Also those whose lease has a time after *latest*: the clock was set back since their reconcile was planned.
    """
    done: str = await connection.execute(_WAKE_UNPLANNED, at, latest)
    return int(done.rsplit(" ", 1)[1])


async def withdraw_notices(connection: Connection, at: datetime) -> int:
    """Remove every notice and have its instance reconciled at *at*, which gives it again; returns how many."""
    return len(await connection.fetch(_WITHDRAW, at))


async def sweep_samples(connection: Connection) -> int:
    """Delete the measurements of instances that are not measured any more; returns how many."""
    done: str = await connection.execute(_SWEEP, timeout=SWEEP_SECONDS)
    return int(done.rsplit(" ", 1)[1])
