"""Since when it is reported that the balance of the account is low; one for all processes."""

from __future__ import annotations

from datetime import datetime

from corral.store.session.database import Connection


async def lock(connection: Connection) -> bool:
    """Whether it is reported; no other process changes that until this transaction ends."""
    at: datetime | None = await connection.fetchval("SELECT low_balance_at FROM corral_installation FOR UPDATE")
    return at is not None


async def note(connection: Connection, at: datetime | None) -> None:
    """Store when it was reported; None: it is not low any more."""
    await connection.execute("UPDATE corral_installation SET low_balance_at = $1", at)
