"""
Leases: the column `lease` of an instance, and the measurements by which an idle one is found.

Measurements have a table of their own: they are written far more often than the instance, and a new one alone changes
nothing that is shown.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from corral.domain.instance import Instance
from corral.store.session.notifications import notification
from corral.store.sql.combined_statement import Write
from corral.store.sql.instance_codec import lease_of, record_of
from corral.store.tables.instances import TOPIC

_CHANGE: Final = f"""
UPDATE corral_instances AS i
SET lease = $2::jsonb, record = $3::jsonb, look_at = LEAST(i.look_at, $5::timestamptz), generation = i.generation + 1
WHERE i.id = $1 AND i.generation = $4
RETURNING i.id, {notification(TOPIC, "i.id")}
"""  # noqa: S608  # constants


def change(instance: Instance, *, wake_at: datetime | None) -> Write:
    """
    Replace the lease of *instance*; returns no row, and changes nothing, if it changed since it was read.

    It is reconciled by *wake_at*; None leaves the time at which it is due.
    """
    arguments = (instance.id, lease_of(instance), record_of(instance), instance.generation, wake_at)
    return Write("leased_instance", _CHANGE, arguments)
