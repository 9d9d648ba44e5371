"""Orphans: provider instances with this installation's provider name that belong to no record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

import msgspec

from corral.domain.instance import ProviderId
from corral.domain.observation.orphans import Orphan
from corral.store.session.database import Connection

_NOTE = """
INSERT INTO corral_orphans (provider_id, name, made_for, kind, status, region, cluster_id, product_id, billing_mode,
                            gpu_num, first_seen_at, last_seen_at)
SELECT *, $11, $11 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                               $8::text[], $9::text[], $10::int[])
ON CONFLICT (provider_id) DO UPDATE
  SET status = excluded.status, kind = excluded.kind, last_seen_at = excluded.last_seen_at
RETURNING provider_id, xmax = 0 AS is_new
"""
_ROW = attrgetter(
    "provider_id", "name", "made_for", "kind", "phase", "region", "cluster_id", "product_id", "billing_mode", "gpu_num"
)
# An adoption deletes the row and a claim marks it, so the later of the two fails. The instance that a second machine
# was made for has a record and a machine; a record without a machine may still get this one.
_CLAIM = """
UPDATE corral_orphans AS o SET asked_at = $2
WHERE provider_id = $1
  AND NOT EXISTS (
    SELECT FROM corral_instances AS i
    WHERE i.provider_id = o.provider_id OR (i.id = o.made_for AND (o.kind = 'no_record' OR i.provider_id IS NULL))
  )
RETURNING provider_id
"""


async def note(connection: Connection, seen: Sequence[Orphan], now: datetime) -> set[ProviderId]:
    """Insert or update the orphans *seen* now; returns the ids of the new ones."""
    if not seen:
        return set()
    ordered = sorted(seen, key=lambda orphan: orphan.provider_id)  # one lock order for all processes
    rows = await connection.fetch(_NOTE, *(list(column) for column in zip(*map(_ROW, ordered), strict=True)), now)
    return {ProviderId(row["provider_id"]) for row in rows if row["is_new"]}


async def forget_others(connection: Connection, seen: Sequence[Orphan]) -> None:
    """Delete all but those *seen* in a complete listing."""
    await connection.execute(
        "DELETE FROM corral_orphans WHERE provider_id <> ALL ($1)", [orphan.provider_id for orphan in seen]
    )


async def load_all(connection: Connection, limit: int = 1000) -> list[Orphan]:
    """All orphans, in the order of their first sighting."""
    rows = await connection.fetch(
        "SELECT *, status AS phase FROM corral_orphans ORDER BY first_seen_at, provider_id LIMIT $1", limit
    )
    return [msgspec.convert(dict(row), Orphan) for row in rows]


async def is_noted(connection: Connection, provider_id: str) -> bool:
    """Whether the machine is a known orphan."""
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM corral_orphans WHERE provider_id = $1)", provider_id
    )
    return found


async def remember_price(connection: Connection, provider_id: ProviderId, micro_usd: int) -> None:
    """Store the price per hour of an orphan."""
    await connection.execute("UPDATE corral_orphans SET micro_usd = $2 WHERE provider_id = $1", provider_id, micro_usd)


async def claim(connection: Connection, provider_id: ProviderId, now: datetime) -> bool:
    """Mark an orphan for deletion; False when a record names the machine."""
    return await connection.fetchval(_CLAIM, provider_id, now) is not None


async def release(connection: Connection, provider_id: str) -> bool:
    """Delete the row because the machine is being adopted; False when the machine is marked for deletion."""
    row = await connection.fetchrow(
        "SELECT asked_at FROM corral_orphans WHERE provider_id = $1 FOR UPDATE", provider_id
    )
    if row is not None and row["asked_at"] is not None:
        return False
    await connection.execute("DELETE FROM corral_orphans WHERE provider_id = $1", provider_id)
    return True
