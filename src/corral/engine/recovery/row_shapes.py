"""The shapes of rows that an import checks beside PostgreSQL's own checks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from corral.domain.budgets.budget import BudgetPeriod, LimitAction
from corral.domain.delivery import DeliveryStatus
from corral.domain.errors import Failure
from corral.domain.events import EventType
from corral.domain.leases.lease import LeaseState
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.operation import OperationKind, OperationStatus
from corral.store.sql.instance_codec import instance_of


class _InstanceRow(msgspec.Struct):
    id: str
    goal: Goal
    phase: Phase
    provider_id: str | None
    record: msgspec.Raw
    lease: LeaseState | None = None


class _OperationRow(msgspec.Struct):
    kind: OperationKind
    status: OperationStatus
    phases: dict[str, datetime]
    error: Failure | None


class _EventRow(msgspec.Struct):
    type: EventType
    status: str
    """A phase; empty: it is not about one instance."""
    previous_status: Phase | None


class _DeliveryRow(msgspec.Struct):
    status: DeliveryStatus


class _BudgetRow(msgspec.Struct):
    period: BudgetPeriod
    on_limit: LimitAction


SHAPES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "instance": _InstanceRow,
    "operation": _OperationRow,
    "event": _EventRow,
    "delivery": _DeliveryRow,
    "budget": _BudgetRow,
}
"""By the kind of the line."""


def check_row(row: msgspec.Struct) -> None:
    """Raise ValueError unless an event has a phase or none, and the columns of an instance agree with its record."""
    if isinstance(row, _EventRow) and row.status:
        Phase(row.status)
    if not isinstance(row, _InstanceRow):
        return
    found = instance_of({"record": bytes(row.record), "generation": 0})
    if (found.id, found.goal, found.phase, found.provider_id) != (row.id, row.goal, row.phase, row.provider_id):
        raise ValueError("the record does not agree with the columns beside it")
