"""What a listing says of what we remember, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from corral.domain.instance import Instance, InstanceId, OperationId, Order, ProviderId
from corral.domain.lifecycle import Goal, Phase
from corral.domain.sighting import ProviderInstance
from corral.domain.survey import Survey, survey

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SETTLE = timedelta(seconds=60)
BORN = Instance(
    id=InstanceId("inst_a1"),
    order=Order(name="a", product_name="RTX 4090 24GB", template_id="1", regions=("CN-HK-01",)),
    goal=Goal.RUNNING,
    phase=Phase.STARTING,
    operation_id=OperationId("op_1"),
    created_at=NOW,
    phase_since=NOW,
    deadline_at=NOW + timedelta(minutes=20),
    attempt=1,
    provider_id=ProviderId("p1"),
    started_at=NOW,
)


def looked(instance: Instance, listed: Sequence[ProviderInstance], *, after: float) -> Survey:
    began = NOW + timedelta(seconds=after)
    return survey({instance.id: instance}, listed, complete=True, began=began, installation="0a1b2c", settle=SETTLE)


@pytest.mark.parametrize("goal", [Goal.RUNNING, Goal.GONE])
def test_a_new_instance_is_not_missing_before_it_had_time_to_show(goal: Goal) -> None:
    """Also when it is to go: taken for gone, it would turn up later and be billed."""
    unwished = replace(BORN, goal=goal, phase_since=NOW + timedelta(seconds=30))

    assert looked(unwished, [], after=59).changed == ()
    assert [i.missing_since for i in looked(unwished, [], after=60).changed] == [NOW + SETTLE]
