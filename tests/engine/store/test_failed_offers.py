"""Offers that failed, on the real database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from corral.domain.placement.catalog import BillingMode
from corral.domain.placement.rank import Offer
from corral.store.session.database import Database
from corral.store.tables.offers import FailedOffers

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OFFER = Offer(product_id="4090.16c62g", cluster_id="as-sgp-2", billing_mode=BillingMode.SPOT)


async def test_a_failed_offer_is_remembered_for_three_minutes_by_everyone(database: Database) -> None:
    """Two processes share the memory; after three minutes the offer deserves another try."""
    await FailedOffers(database).remember(OFFER, gpu_num=1, reason="no stock", now=NOW)
    other = FailedOffers(database)

    assert await other.recent(NOW) == {OFFER: 1}
    assert await other.recent(NOW + timedelta(minutes=2, seconds=59)) == {OFFER: 1}
    assert await other.recent(NOW + timedelta(minutes=3)) == {}


async def test_failing_again_counts_from_the_last_time(database: Database) -> None:
    """And a late report of an earlier failure does not shorten it."""
    offers = FailedOffers(database)
    await offers.remember(OFFER, gpu_num=1, reason="no stock", now=NOW)
    await offers.remember(OFFER, gpu_num=1, reason="no stock", now=NOW + timedelta(minutes=2))
    await offers.remember(OFFER, gpu_num=1, reason="no stock", now=NOW + timedelta(minutes=1))

    assert await offers.recent(NOW + timedelta(minutes=4, seconds=59)) == {OFFER: 1}


async def test_old_failures_are_removed_as_others_come(database: Database) -> None:
    """Many at once do not wait for each other."""
    offers = FailedOffers(database)
    many = [replace(OFFER, product_id=str(n)) for n in range(20)]
    await asyncio.gather(*(offers.remember(offer, gpu_num=1, reason="no stock", now=NOW) for offer in many))
    later = NOW + timedelta(minutes=3)
    await asyncio.gather(*(offers.remember(offer, gpu_num=1, reason="no stock", now=later) for offer in many[:5]))

    assert await offers.recent(later) == dict.fromkeys(many[:5], 1)
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM corral_shortages") == 5


async def test_the_fewest_gpus_that_were_refused_count_each_for_their_own_time(database: Database) -> None:
    """A shortage of eight does not imply one of one, and does not lengthen a shortage of one."""
    offers = FailedOffers(database)
    await offers.remember(OFFER, gpu_num=1, reason="no stock", now=NOW)
    await offers.remember(OFFER, gpu_num=8, reason="no stock", now=NOW + timedelta(minutes=2))

    assert await offers.recent(NOW + timedelta(minutes=2)) == {OFFER: 1}
    assert await offers.recent(NOW + timedelta(minutes=4)) == {OFFER: 8}
