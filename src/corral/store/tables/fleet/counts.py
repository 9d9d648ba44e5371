"""The whole fleet: counts, costs and the machines that run, from the tables so that every process reports the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from corral.domain.delivery import DeliveryStatus
from corral.domain.instance import InstanceId, ProviderId
from corral.domain.lifecycle.phases import REACHABLE, Phase
from corral.store.session.database import Connection
from corral.store.tables.costs.totals import hourly_rate

LATELY: Final = timedelta(days=1)

_COUNT = """
SELECT
    (SELECT json_object_agg(phase, instances) FROM (
        SELECT phase, count(*) AS instances FROM corral_instances GROUP BY phase
    ) AS by_phase) AS phases,
    outbox.pending, outbox.oldest,
    (SELECT count(*) FROM corral_deliveries WHERE ended_at > $1 AND status = $2) AS failed,
    (SELECT at FROM corral_last_look) AS looked_at,
    (SELECT count(*) FROM corral_orphans) AS orphans
FROM (
    -- The age of a redelivered one counts from the redelivery; its event may be a week old.
    SELECT count(*) AS pending, min(CASE WHEN tries = 0 THEN next_at ELSE created_at END) AS oldest
    FROM corral_deliveries WHERE status = 'pending'
) AS outbox
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCount:
    """The fleet at one moment."""

    instances: Mapping[Phase, int]
    """Of every phase."""
    micro_usd: Fraction
    """What everything that is billed costs an hour, disks and machines without a record included."""
    webhooks_pending: int
    oldest_webhook_age: timedelta | None
    webhooks_failed: int
    """Given up within the last day."""
    looked_at: datetime | None
    """When the provider's whole list was last read."""
    orphans: int
    """Provider instances with our provider name and without a record."""


async def count(connection: Connection, now: datetime) -> FleetCount:
    """Count everything."""
    row = await connection.fetchrow(_COUNT, now - LATELY, DeliveryStatus.FAILED.value)
    phases = msgspec.json.decode(row["phases"] or "{}", type=dict[Phase, int])
    return FleetCount(
        instances={phase: phases.get(phase, 0) for phase in Phase},
        micro_usd=await hourly_rate(connection),
        webhooks_pending=row["pending"],
        oldest_webhook_age=None if row["oldest"] is None else max(now - row["oldest"], timedelta(0)),
        webhooks_failed=row["failed"],
        looked_at=row["looked_at"],
        orphans=row["orphans"],
    )


class RunningMachine(NamedTuple):
    """A machine that runs."""

    instance_id: InstanceId
    name: str
    provider_id: ProviderId


async def running_machines(connection: Connection) -> list[RunningMachine]:
    """The machines that run, newest first."""
    rows = await connection.fetch(
        "SELECT id, name, provider_id FROM corral_instances WHERE phase = ANY($1) AND provider_id IS NOT NULL"
        " ORDER BY created_at DESC, id DESC",
        sorted(REACHABLE),
    )
    return [RunningMachine(InstanceId(row["id"]), row["name"], ProviderId(row["provider_id"])) for row in rows]
