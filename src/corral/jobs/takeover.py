"""Puts the jobs of a process that stopped back into the queue, before its heartbeat times out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg

from corral.jobs.pgqueuer_adapter import CHANNEL, QUEUE, WAKE
from corral.store.session.database import Connection

_RELEASE: Final = f"""
WITH released AS (
    UPDATE {QUEUE}
    SET status = 'queued', queue_manager_id = NULL, execute_after = now(), updated = now()
    WHERE status = 'picked' AND queue_manager_id = ANY($1) AND ($3::text[] IS NULL OR entrypoint = ANY($3))
    RETURNING id
), counted AS (
    SELECT count(*) AS jobs FROM released
)
SELECT jobs, CASE WHEN jobs > 0 THEN pg_notify('{CHANNEL}', $2) END FROM counted
"""  # noqa: S608  # constants


async def release(
    connection: asyncpg.Connection | Connection, owners: Sequence[UUID], types: Sequence[str] | None = None
) -> int:
    """
    Put back the unfinished jobs of *owners*, without counting a failure; wakes workers and returns how many.

    With *types*, only jobs of these types: a process may have several workers.
    """
    return int(await connection.fetchval(_RELEASE, list(owners), WAKE, types) or 0)
