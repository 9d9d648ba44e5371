"""Instances with a lease, and measurements of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from corral.domain.instance import CreateRequest, Instance, InstanceId, OperationId, ProviderId
from corral.domain.leases.changes import new_state
from corral.domain.leases.lease import Lease
from corral.domain.leases.samples import IdleSample
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.records import replace

T0: Final = datetime(2026, 11, 16, 12, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)


def leased(lease: Lease | None, **fields: Any) -> Instance:
    """An instance that is ready since T0, with *lease* and other *fields*."""
    ready = Instance(
        id=InstanceId("i-1"),
        request=CreateRequest(name="trainer", product_name="RTX 4090 24GB", template_id="1", regions=("CN-HK-01",)),
        goal=Goal.RUNNING,
        phase=Phase.READY,
        operation_id=OperationId("o-1"),
        created_at=T0 - 5 * MINUTE,
        phase_since=T0,
        deadline_at=None,
        provider_id=ProviderId("p-1"),
        started_at=T0 - MINUTE,
        ready_at=T0,
        lease=None if lease is None else new_state(lease, T0 - 5 * MINUTE),
    )
    seen = replace(ready.observation, sighting=Sighting.RUNNING)
    return replace(ready, observation=seen, **fields)


def measured(times: Iterable[datetime], gpu: float | None = 0.0, cpu: float | None = 2.0) -> list[IdleSample]:
    """A sample at each of *times*."""
    return [IdleSample(at=at, gpu=gpu, cpu=cpu) for at in times]


def every(distance: timedelta, begin: datetime, end: datetime) -> list[datetime]:
    """The times after *begin* until *end*, so far apart."""
    return [begin + number * distance for number in range(1, (end - begin) // distance + 1)]
