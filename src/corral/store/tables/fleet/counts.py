"""The whole fleet: counts, costs and the machines that run, from the tables so that every process reports the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from corral.domain.delivery import DeliveryStatus
from corral.domain.instance import InstanceId, ProviderId
from corral.domain.lifecycle.phases import REACHABLE, Phase
from corral.store.session.database import Connection

LATELY: Final = timedelta(days=1)

_COUNT = """
SELECT
    (SELECT json_object_agg(phase, json_build_array(instances, micro_usd)) FROM (
        SELECT phase, count(*) AS instances, sum(micro_usd) AS micro_usd FROM corral_instances GROUP BY phase
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

_COST = """
WITH event AS (
    SELECT instance_id, at, micro_usd AS after, lag(micro_usd) OVER of_instance AS known, micro_usd_before AS before
    FROM corral_events WHERE at > $1::timestamptz AND at <= $2::timestamptz
    WINDOW of_instance AS (PARTITION BY instance_id ORDER BY id)
), change AS (
    SELECT at, after - coalesce(known, before) AS by,
           ceil(extract(epoch FROM at - $1::timestamptz) / extract(epoch FROM $3::interval))::int AS step
    FROM event WHERE after <> coalesce(known, before)
)
SELECT 0 AS step, (SELECT coalesce(sum(before), 0) FROM event WHERE known IS NULL)
    + coalesce(sum(micro_usd), 0) AS by, 0 AS for_share
FROM corral_instances AS i WHERE micro_usd > 0 AND NOT EXISTS (SELECT FROM event WHERE event.instance_id = i.id)
UNION ALL
SELECT step, sum(by),
       sum(by * (step - extract(epoch FROM at - $1::timestamptz) / extract(epoch FROM $3::interval)))
FROM change GROUP BY step
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCount:
    """The fleet at one moment."""

    instances: Mapping[Phase, int]
    """Of every phase."""
    micro_usd: int
    """Its cost per hour now."""
    webhooks_pending: int
    oldest_webhook_age: timedelta | None
    webhooks_failed: int
    """Given up within the last day."""
    looked_at: datetime | None
    """When the provider's whole list was last read."""
    orphans: int
    """Provider instances with our provider name and without a record."""


async def count(connection: Connection, now: datetime) -> FleetCount:
    """Count everything, by one statement."""
    row = await connection.fetchrow(_COUNT, now - LATELY, DeliveryStatus.FAILED.value)
    phases = msgspec.json.decode(row["phases"] or "{}", type=dict[Phase, tuple[int, int]])
    return FleetCount(
        instances={phase: phases.get(phase, (0, 0))[0] for phase in Phase},
        micro_usd=sum(micro_usd for _, micro_usd in phases.values()),
        webhooks_pending=row["pending"],
        oldest_webhook_age=None if row["oldest"] is None else max(now - row["oldest"], timedelta(0)),
        webhooks_failed=row["failed"],
        looked_at=row["looked_at"],
        orphans=row["orphans"],
    )


async def cost_by_step(
    connection: Connection, *, after: datetime, until: datetime, step: timedelta, steps: int
) -> list[float]:
    """
    What the fleet cost an hour, in micro-USD, on the average of each of so many steps.

    It follows from the event log alone: every event knows what its instance cost before and after it. An instance
    without an event since then costs what it does now.
    """
    rows = await connection.fetch(_COST, after, until, step)
    changes = {row["step"]: (float(row["by"]), float(row["for_share"])) for row in rows}
    level = changes.pop(0)[0]
    averages: list[float] = []
    for number in range(1, steps + 1):
        by, for_share = changes.get(number, (0.0, 0.0))
        averages.append(level + for_share)
        level += by
    return averages


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
