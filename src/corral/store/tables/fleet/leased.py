"""Reads leases: how many there are of each kind, and all that can be judged, with their measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corral.domain.instance import Instance, InstanceId
from corral.domain.leases.samples import IdleSample
from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import Connection
from corral.store.sql.instance_codec import INSTANCE_COLUMNS, instance_of
from corral.store.tables.leases import SAMPLE_COLUMNS, sample_of

_PRESENT: Final = f"lease IS NOT NULL AND phase <> '{Phase.TERMINATED.value}'"
_HAS: Final = " OR ".join(f"lease #>> '{{lease,{part}}}' IS NOT NULL" for part in ("max_duration", "idle", "schedule"))
_COUNTS: Final = f"""
SELECT count(*) FILTER (WHERE {_HAS}) AS leases,
    count(*) FILTER (WHERE lease #>> '{{lease,max_duration}}' IS NOT NULL) AS max_duration,
    count(*) FILTER (WHERE lease #>> '{{lease,idle}}' IS NOT NULL) AS idle,
    count(*) FILTER (WHERE lease #>> '{{lease,schedule}}' IS NOT NULL) AS schedule,
    count(*) FILTER (WHERE lease #>> '{{notice}}' IS NOT NULL) AS ending_soon,
    count(*) FILTER (WHERE (lease #>> '{{extended_until}}')::timestamptz > $1) AS extended,
    count(*) FILTER (WHERE lease #>> '{{ended_by}}' IS NOT NULL) AS ended_by_lease,
    min((lease #>> '{{notice,ends_at}}')::timestamptz) AS next_end_at
FROM corral_instances WHERE {_PRESENT}
"""  # noqa: S608  # constants


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCounts:
    """Leases of instances that are not terminated."""

    leases: int
    max_duration: int
    idle: int
    schedule: int
    ending_soon: int
    extended: int
    ended_by_lease: int
    next_end_at: datetime | None
    """The earliest end of which notice was given."""


async def counts(connection: Connection, now: datetime) -> LeaseCounts:
    """How many leases there are of each kind."""
    return LeaseCounts(**dict(await connection.fetchrow(_COUNTS, now)))


async def leased(connection: Connection) -> list[Instance]:
    """Every instance with a lease that is not terminated, newest first."""
    rows = await connection.fetch(
        f"SELECT {INSTANCE_COLUMNS} FROM corral_instances"  # noqa: S608  # constants
        f" WHERE {_PRESENT} AND ({_HAS}) ORDER BY created_at DESC, id"
    )
    return [instance_of(row) for row in rows]


async def samples_of(connection: Connection, ids: Sequence[InstanceId]) -> Mapping[InstanceId, list[IdleSample]]:
    """The measurements of each of *ids*, in the order of time."""
    rows = await connection.fetch(
        f"SELECT instance_id, {SAMPLE_COLUMNS} FROM corral_idle_samples"  # noqa: S608  # constants
        " WHERE instance_id = ANY($1) ORDER BY 2",
        list(ids),
    )
    found = defaultdict[InstanceId, list[IdleSample]](list)
    for instance_id, *columns in rows:
        found[InstanceId(instance_id)].append(sample_of(*columns))
    return found
