"""
Prices of usage that was recorded without one, because the provider could not be asked when the machine was adopted.

It gets the present price on demand, and stays marked as estimated. Orphans get theirs from their own sweep.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from corral.base.log import log
from corral.domain.costs.usage import HOURS
from corral.domain.errors import CloudError
from corral.domain.placement.catalog import BillingMode
from corral.engine.queries.catalog import Catalog
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database
from corral.store.tables.costs import unpriced

EVERY: Final = timedelta(minutes=10)
"""Longer shows costs without these prices for longer; shorter only reads the catalog more often."""


def price_usage(database: Database, catalog: Catalog) -> JobType:
    """The job type that looks up the prices; an unreachable provider leaves them to the next run."""

    async def handler(_run: JobRun) -> None:
        async with database.connection() as connection:
            machines = await unpriced.machines(connection)
        try:
            for machine in machines:
                price = await catalog.price(machine.cluster_id, machine.product_id, BillingMode.ON_DEMAND)
                if price is not None:
                    async with database.connection() as connection:
                        await unpriced.price_known(connection, machine.provider_id, price * HOURS)
        except CloudError as error:
            log.warning("usage.prices_unread", why=error.message)

    return JobType(name="price_usage", handler=handler, priority=Priority.LOW, every=EVERY)
