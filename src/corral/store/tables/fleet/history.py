"""
Deletes rows older than the retention: terminated instances with their operations, events, audit lines, times to ready.

Each statement deletes a limited number of rows, so that it holds its locks for milliseconds; a caller repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from corral.domain.lifecycle.phases import Phase
from corral.store.session.database import SWEEP_SECONDS, Connection
from corral.store.session.notifications import notification
from corral.store.tables.instances import TOPIC

# A row that another transaction changes right now is not old: it is skipped, not waited for.
_INSTANCES = f"""
WITH old AS (
    SELECT id FROM corral_instances
    WHERE phase = '{Phase.TERMINATED.value}' AND created_at < $1 AND (record->>'phase_since')::timestamptz < $1
      AND NOT create_in_doubt
    ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED
), operations AS (DELETE FROM corral_operations USING old WHERE instance_id = old.id),
silenced AS (DELETE FROM corral_silenced_receivers USING old WHERE instance_id = old.id)
DELETE FROM corral_instances AS i USING old WHERE i.id = old.id RETURNING {notification(TOPIC, "i.id")}
"""  # noqa: S608  # constants
# The present operation of an instance stays as long as the instance.
_OPERATIONS = """
DELETE FROM corral_operations WHERE id IN (
    SELECT o.id FROM corral_operations AS o JOIN corral_instances AS i ON i.id = o.instance_id
    WHERE o.created_at < $1 AND o.id <> i.record->>'operation_id' LIMIT $2
)
"""
# The newest stays: the next number is one more than the highest. So does what a kept delivery sends.
_EVENTS = """
DELETE FROM corral_events WHERE id IN (
    SELECT e.id FROM corral_events AS e
    WHERE e.at < $1 AND e.seq < (SELECT max(seq) FROM corral_events)
      AND NOT EXISTS (SELECT FROM corral_deliveries AS d WHERE d.event_id = e.id)
    LIMIT $2
)
"""
_AUDIT = "DELETE FROM corral_audit WHERE id IN (SELECT id FROM corral_audit WHERE at < $1 LIMIT $2)"
# The last twenty of a product make its estimate, however old they are.
_READY_TIMES = """
DELETE FROM corral_ready_times WHERE id IN (
    SELECT id FROM (
        SELECT id, at, row_number() OVER (PARTITION BY product_name, kind ORDER BY id DESC) AS place
        FROM corral_ready_times
    ) AS placed
    WHERE place > 20 AND (at < $1 OR at IS NULL) LIMIT $2
)
"""

PRUNED: Final[Mapping[str, str]] = {
    "instances": _INSTANCES,
    "operations": _OPERATIONS,
    "events": _EVENTS,
    "audit lines": _AUDIT,
    "ready times": _READY_TIMES,
}


async def prune(connection: Connection, what: str, *, before: datetime, limit: int) -> int:
    """Delete at most *limit* rows of *what* that are older than *before*; returns how many instances or rows."""
    done: str = await connection.execute(PRUNED[what], before, limit, timeout=SWEEP_SECONDS)
    return int(done.rsplit(" ", 1)[1])
