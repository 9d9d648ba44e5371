"""Machines with usage of which the price is not known."""

from __future__ import annotations

from typing import Final, NamedTuple

from corral.store.session.database import Connection

_UNPRICED: Final = """
SELECT DISTINCT u.provider_id, i.record #>> '{placement,cluster_id}' AS cluster_id,
       i.record #>> '{placement,product_id}' AS product_id
FROM corral_usage AS u JOIN corral_instances AS i ON i.provider_id = u.provider_id
WHERE u.unit_price = 0 AND i.record #>> '{placement,cluster_id}' <> '' AND i.record #>> '{placement,product_id}' <> ''
LIMIT $1
"""


class UnpricedMachine(NamedTuple):
    """A machine with usage of which the price is not known."""

    provider_id: str
    cluster_id: str
    product_id: str


async def machines(connection: Connection, limit: int = 500) -> list[UnpricedMachine]:
    """Those that belong to instances, and what they are."""
    rows = await connection.fetch(_UNPRICED, limit)
    return [UnpricedMachine(**row) for row in rows]


async def price_known(connection: Connection, provider_id: str, unit_price: int) -> None:
    """Store the price for a day of one GPU of a machine of which it was not known."""
    await connection.execute(
        "UPDATE corral_usage SET unit_price = $2 WHERE provider_id = $1 AND kind = 'gpu' AND unit_price = 0",
        provider_id,
        unit_price,
    )
