"""Pages of the instances: ids and generations only, because readers keep the instances themselves by generation."""

from __future__ import annotations

from collections.abc import Sequence

from corral.domain.instance import InstanceId
from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import Connection

_SELECTED = """FROM corral_instances WHERE ($1::text[] IS NULL OR phase = ANY($1)) AND ($2::text IS NULL OR name = $2)
AND ($3::text IS NULL OR region = $3) AND ($7::text IS NULL OR created_by = $7)"""
# One row without an id for a page that is empty, so that the total is known there too. A page after an instance starts
# in the index, however far behind the first that is; the total does not depend on it.
_PAGE = f"""
SELECT total, page.id, page.generation FROM (SELECT count(*) AS total {_SELECTED}) AS counted
LEFT JOIN (
    SELECT id, generation, created_at {_SELECTED}
    AND created_at <= coalesce((SELECT created_at FROM corral_instances WHERE id = $6), 'infinity')
    AND ($6::text IS NULL OR id > $6 OR created_at < (SELECT created_at FROM corral_instances WHERE id = $6))
    ORDER BY created_at DESC, id LIMIT $4 OFFSET $5
) AS page ON true
ORDER BY page.created_at DESC, page.id
"""  # noqa: S608  # constants


async def page(
    connection: Connection,
    *,
    phases: Sequence[Phase] | None,
    name: str | None,
    region: str | None,
    created_by: str | None = None,
    limit: int,
    offset: int,
    after: str | None = None,
) -> tuple[dict[InstanceId, int], int]:
    """
    The generation of each instance of one page, newest first, and how many there are in all.

    The page begins after the instance with the id *after*, which must exist.
    """
    wanted = None if phases is None else list(phases)
    rows = await connection.fetch(_PAGE, wanted, name, region, limit, offset, after, created_by)
    return {InstanceId(row["id"]): row["generation"] for row in rows if row["id"] is not None}, rows[0]["total"]


async def generations(connection: Connection, ids: Sequence[InstanceId]) -> dict[InstanceId, int]:
    """The generation of each instance with one of *ids*, newest first."""
    rows = await connection.fetch(
        "SELECT id, generation FROM corral_instances WHERE id = ANY($1) ORDER BY created_at DESC, id", list(ids)
    )
    return {InstanceId(row["id"]): row["generation"] for row in rows}
