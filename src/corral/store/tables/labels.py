"""What users change of an instance without doing anything to its machine: the columns `labels` and `protected`."""

from __future__ import annotations

from typing import Final

from corral.domain.instance import Instance
from corral.store.session.notifications import notification
from corral.store.sql.combined_statement import Write
from corral.store.sql.instance_codec import labels_of, record_of
from corral.store.tables.instances import TOPIC

_CHANGE: Final = f"""
UPDATE corral_instances AS i
SET labels = $2::jsonb, protected = $5, record = $3::jsonb, generation = i.generation + 1
WHERE i.id = $1 AND i.generation = $4
RETURNING i.id, {notification(TOPIC, "i.id")}
"""  # noqa: S608  # constants


def change(instance: Instance) -> Write:
    """
    Replace the labels of *instance*, and whether it is protected.

    Returns no row, and changes nothing, if it changed since it was read.
    """
    arguments = (instance.id, labels_of(instance), record_of(instance), instance.generation, instance.protected)
    return Write("relabelled_instance", _CHANGE, arguments)
