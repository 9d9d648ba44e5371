"""What a listing says of what we remember, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.sightings import shown

from corral.domain.instance import Instance, InstanceId, OperationId, Order, ProviderId
from corral.domain.lifecycle import Goal, Phase
from corral.domain.sighting import ProviderInstance, Sighting
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


def test_an_old_listing_does_not_take_back_what_was_said_since() -> None:
    """One that was found gone while the listing was read does not come to life again."""
    gone = replace(
        BORN, goal=Goal.GONE, phase=Phase.TERMINATED, sighting=Sighting.ABSENT, sighted_at=NOW + timedelta(seconds=5)
    )

    assert looked(gone, [shown("p1", Sighting.REMOVING)], after=4).changed == ()
    assert [i.sighting for i in looked(gone, [shown("p1", Sighting.RUNNING)], after=6).changed] == [Sighting.RUNNING]


def test_listings_within_the_settle_time_prove_nothing_about_a_create_in_doubt() -> None:
    """Two early listings may both lag behind the create; a long pause after them proves no more."""
    doubtful = replace(BORN, phase=Phase.CREATING, provider_id=None, create_sent_at=NOW, doubted_at=NOW)
    counted = [len(looked(doubtful, [], after=seconds).counted) for seconds in (0, 1, 59.9, 60, 61)]

    assert counted == [0, 0, 0, 1, 1]
