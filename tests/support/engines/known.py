"""An instance that has just been requested; tests about others begin from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from corral.domain.costs.meter import Gauge, Meter, MeterState
from corral.domain.instance import CreateRequest, Instance, InstanceId, OperationId
from corral.domain.lifecycle.phases import Goal, Phase

NOW = datetime(2030, 1, 1, tzinfo=UTC)
FRESH = Instance(
    id=InstanceId("inst_a1"),
    request=CreateRequest(name="a", product_name="RTX 4090 24GB", template_id="1", regions=("CN-HK-01",)),
    goal=Goal.RUNNING,
    phase=Phase.CREATING,
    operation_id=OperationId("op_1"),
    created_at=NOW,
    phase_since=NOW,
    deadline_at=NOW + timedelta(minutes=20),
)

_GAUGE = Gauge(state=MeterState.BILLED, at=NOW, is_listed=True)
BILLED = Meter(gpu=_GAUGE, disk=_GAUGE)
"""Of a machine that was seen running."""


def altered(instance: Instance, **fields: Any) -> Instance:
    """*instance* with other *fields*; of a group, a dict gives the fields that differ."""
    changes = {
        name: replace(getattr(instance, name), **value) if isinstance(value, dict) else value
        for name, value in fields.items()
    }
    return replace(instance, **changes)
