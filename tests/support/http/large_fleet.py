"""Many instances in a database, without an engine that would change them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from corral.domain.costs.meter import Gauge, Meter, MeterState
from corral.domain.errors import Failure
from corral.domain.instance import Instance, InstanceId, OperationId, Placement, ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.placement.catalog import BillingMode
from corral.store.session.database import Database
from corral.store.tables import instances
from support.engines.known import FRESH, altered

PRICE = 0.18
HOUR = timedelta(hours=1)
LABELS = (("stage", "<b>prod</b>"), ("team", "Vision"))
"""Of the oldest instance."""
_STATES = (
    (Phase.READY, Goal.RUNNING, Sighting.RUNNING),
    (Phase.EXITED, Goal.STOPPED, Sighting.EXITED),
    (Phase.READY, Goal.RUNNING, Sighting.RUNNING),
    (Phase.FAILED, Goal.RUNNING, Sighting.RUNNING),
    (Phase.READY, Goal.RUNNING, Sighting.RUNNING),
)


async def add_instances(database: Database, count: int, *, name: str = "trainer") -> None:
    """
    Add *count* instances, of which three in five are ready, one is stopped, and one failed and is billed.

    Number n is n hours old; those with an even number belong to olga, the others to piet. The oldest has labels.
    """
    async with database.transaction() as connection:
        made = [_instance(number, name) for number in range(count)]
        made[-1] = altered(made[-1], labels=LABELS)
        await instances.add(made).run(connection)


def _instance(number: int, name: str) -> Instance:
    phase, goal, sighting = _STATES[number % len(_STATES)]
    made_at = datetime.now(UTC) - number * HOUR  # noqa: TID251  # a browser compares it with its own clock
    return altered(
        FRESH,
        id=InstanceId(f"inst_{number}"),
        operation_id=OperationId(f"op_{number}"),
        request={"name": f"{name}-{number}"},
        phase=phase,
        goal=goal,
        created_at=made_at,
        created_by="piet" if number % 2 else "olga",
        provider_id=ProviderId(f"machine-{number}"),
        placement=Placement(
            region="CN-HK-01",
            cluster_id="hk",
            product_id="4090",
            billing_mode=BillingMode.SPOT,
            micro_usd=round(PRICE * 1_000_000),
        ),
        observation={"sighting": sighting, "sighted_at": made_at, "meter": _meter(sighting, made_at)},
        failure=Failure(code="HEALTH_CHECK_FAILED", message="port 80 refuses") if phase is Phase.FAILED else None,
        ready_at=made_at if phase is Phase.READY else None,
    )


def _meter(sighting: Sighting | None, at: datetime) -> Meter:
    """Its GPUs are billed while it runs; its disk is within the free size."""
    is_billed = sighting is Sighting.RUNNING
    gpu = Gauge(state=MeterState.BILLED if is_billed else MeterState.UNBILLED, at=at, is_listed=True)
    return Meter(gpu=gpu, disk=Gauge(state=MeterState.UNBILLED, at=at, is_listed=True))
