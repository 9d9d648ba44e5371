"""Judges reservations by the stored rows and the event log alone: each is released once, for a reason, for good."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from corral.domain.instance import InstanceId
from corral.store.session.database import Connection

_ROWS = "SELECT id, phase, reserved_micro_usd AS amount, reserved_at AS at FROM corral_instances WHERE id = ANY($1)"
_ENDED = """
SELECT EXISTS (
    SELECT FROM corral_events WHERE instance_id = $1 AND at >= $2 AND status IN ('exited', 'terminated', 'failed')
)
"""
OVER = frozenset({"exited", "terminated"})


class ReservationJudge:
    """Follows the reservations of some instances."""

    def __init__(self) -> None:
        self.trouble: list[str] = []
        self._held: dict[str, datetime] = {}
        self._released: set[tuple[str, datetime]] = set()

    async def look(self, connection: Connection, ids: Sequence[InstanceId]) -> None:
        """Note what is wrong now, or with what became of the reservations since the last look."""
        for row in await connection.fetch(_ROWS, list(ids)):
            name, amount, at = row["id"], row["amount"], row["at"]
            if (amount is None) is not (at is None) or (amount is not None and amount <= 0):
                self.trouble.append(f"{name} reserves {amount} since {at}")
            if amount is not None and row["phase"] in OVER:
                self.trouble.append(f"{name} is {row['phase']} and reserves {amount}")
            if at is not None and (name, at) in self._released:
                self.trouble.append(f"the reservation of {name} came back after its release")
            before = self._held.pop(name, None)
            if at is not None:
                self._held[name] = at
            if before is not None and before != at:
                self._released.add((name, before))
                if at is None and not await connection.fetchval(_ENDED, name, before):
                    self.trouble.append(f"the reservation of {name} was released without an end of its machine")
