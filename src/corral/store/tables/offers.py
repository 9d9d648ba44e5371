"""
Offers that the provider refused because they were out of stock, kept for a few minutes for every process.

The catalog says "available" for minutes after the last machine is gone; without this table every create in that time
would first get the same refusal.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from corral.domain.placement.rank import Offer
from corral.store.session.database import Database

REMEMBERED_FOR: Final = timedelta(minutes=3)
"""Longer, and a machine that became free is not considered; shorter, and every create makes a refused call first."""

_REMEMBER = """
INSERT INTO corral_shortages (product_id, cluster_id, billing_mode, gpu_num, failed_at, reason)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (product_id, cluster_id, billing_mode, gpu_num) DO UPDATE
SET failed_at = excluded.failed_at, reason = excluded.reason
WHERE corral_shortages.failed_at < excluded.failed_at
"""
# Skips rows that another process is writing, so that two writers never wait for each other.
_FORGET = """
DELETE FROM corral_shortages WHERE (product_id, cluster_id, billing_mode, gpu_num) IN (
    SELECT product_id, cluster_id, billing_mode, gpu_num FROM corral_shortages WHERE failed_at <= $1
    FOR UPDATE SKIP LOCKED
)
"""


class FailedOffers:
    """The table of failed offers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def remember(self, offer: Offer, *, gpu_num: int, reason: str, now: datetime) -> None:
        """
        Keep creates with *gpu_num* GPUs or more from choosing *offer* for the next three minutes.

        Deletes expired rows.
        """
        mode = offer.billing_mode
        async with self._database.connection() as connection:
            await connection.execute(_REMEMBER, offer.product_id, offer.cluster_id, mode, gpu_num, now, reason)
            await connection.execute(_FORGET, now - REMEMBERED_FOR)

    async def recent(self, now: datetime, within: timedelta = REMEMBERED_FOR) -> dict[Offer, int]:
        """Every offer that failed *within* this time before *now*, with the fewest GPUs that were refused."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT product_id, cluster_id, billing_mode, min(gpu_num) AS fewest FROM corral_shortages"
                " WHERE failed_at > $1 GROUP BY product_id, cluster_id, billing_mode",
                now - within,
            )
        return {msgspec.convert(dict(row), Offer): row["fewest"] for row in rows}
