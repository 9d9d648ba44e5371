"""Usage, written as the service would have written it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from corral.store.session.database import Connection

DEFAULTS: Final[dict[str, Any]] = {
    "instance_id": None,
    "provider_id": "machine",
    "kind": "gpu",
    "cause": "serving",
    "unit_price": 24_000_000,
    "quantity": 1,
    "estimated": False,
    "ended_earliest": None,
    "ended_latest": None,
    "follows": False,
    "product_name": "RTX 4090 24GB",
    "region": "CN-HK-01",
    "billing_mode": "spot",
    "created_by": "olga",
    "labels": None,
}
"""One GPU at 1 USD an hour."""


async def add_usage(connection: Connection, began: datetime, ended: datetime | None = None, **fields: Any) -> None:
    """
    A span from *began* to *ended*, both known exactly; without *ended* one that was seen when it began and is open.

    *fields* are columns with other values, such as the bounds of an edge.
    """
    edges = {"started_earliest": began, "started_latest": began, "ended_earliest": ended, "ended_latest": ended}
    row = {**DEFAULTS, **edges, "confirmed_at": ended or began, **fields}
    places = ", ".join(f"${place}" for place in range(1, len(row) + 1))
    statement = f"INSERT INTO corral_usage ({', '.join(row)}) VALUES ({places})"  # noqa: S608  # names of columns
    await connection.execute(statement, *row.values())
