"""Telling of changes: the event log, in the transaction of the change itself."""

from __future__ import annotations

from collections.abc import Sequence

from corral.domain.events import Change
from corral.store import events
from corral.store.database import Connection


async def tell(connection: Connection, changes: Sequence[Change]) -> None:
    """Record that *changes* happened, within the transaction that made them."""
    if changes:
        await events.append(connection, changes)
