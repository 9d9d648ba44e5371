"""The provider's times only narrow the bounds of usage within what Corral's own times allow."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.engines.known import FRESH, NOW, altered
from support.provider.sightings import shown

from corral.domain.costs.changes import usage_changes
from corral.domain.costs.loose import loose_usage
from corral.domain.costs.meter import read
from corral.domain.costs.usage import NewUsage, UsageKind
from corral.domain.instance import InstanceId, Observation, OperationId
from corral.domain.observation.adoption import Adoption, adopted
from corral.domain.observation.matching import Unmatched, UnmatchedKind
from corral.domain.observation.provider_names import ProviderName
from corral.domain.observation.sighting import Sighting

LONG_AGO = NOW - timedelta(days=3640)
INSTALLED_AT = NOW - timedelta(days=30)
YESTERDAY = NOW - timedelta(days=1)


def loose(kind: UnmatchedKind, **said: Any) -> NewUsage:
    origin = ProviderName(installation="0a1b2c", instance_id=FRESH.id, attempt=1)
    found = Unmatched(origin=origin, seen=shown("p", Sighting.RUNNING, **said), kind=kind)
    record = None if kind is UnmatchedKind.NO_RECORD else altered(FRESH, created_at=YESTERDAY)
    (change,) = loose_usage(found, record, installed_at=INSTALLED_AT, began=NOW, now=NOW)
    assert change.started == (change.begins and change.begins.started)
    assert change.begins is not None
    return change.begins


@pytest.mark.parametrize(
    ("kind", "created_at", "since"),
    [
        (UnmatchedKind.NO_RECORD, LONG_AGO, INSTALLED_AT),
        (UnmatchedKind.NO_RECORD, YESTERDAY, YESTERDAY - timedelta(seconds=5)),
        (UnmatchedKind.SECOND_MACHINE, LONG_AGO, YESTERDAY),
    ],
)
def test_a_machine_without_a_record_is_certainly_billed_only_from_when_it_was_seen(
    kind: UnmatchedKind, created_at: datetime, since: datetime
) -> None:
    """It may have been since its creation, but not since before its record or the installation."""
    begins = loose(kind, created_at=created_at, started_at=created_at)
    assert begins.since == since
    assert begins.started is not None
    assert (begins.started.by, begins.started.ceiling) == (NOW, None)


def test_a_record_of_an_earlier_release_is_not_billed_since_before_its_machine_was_adopted() -> None:
    """The times of its creation and its start are the provider's."""
    seen = shown("p", Sighting.RUNNING, created_at=LONG_AGO, started_at=LONG_AGO)
    record = adopted(
        seen,
        Adoption(),
        micro_usd_per_gpu=1000,
        instance_id=InstanceId("inst_a1"),
        operation_id=OperationId("op_1"),
        now=YESTERDAY,
    )
    assert record.started_at == LONG_AGO
    before = altered(record, observation={"meter": None})
    after = altered(before, observation=Observation(sighting=Sighting.RUNNING, meter=read(None, seen, NOW)))

    change = next(each for each in usage_changes(before, after, NOW) if each.kind is UsageKind.GPU)

    assert change.begins is not None
    assert change.begins.since == YESTERDAY


def test_an_adopted_machine_is_not_billed_for_a_disk_of_a_size_that_no_disk_has() -> None:
    """The size that the provider gives counts as not known."""
    record = adopted(
        shown("p", Sighting.RUNNING, rootfs_gb=2**31 - 1),
        Adoption(),
        micro_usd_per_gpu=1000,
        instance_id=InstanceId("inst_a1"),
        operation_id=OperationId("op_1"),
        now=NOW,
    )

    billed = [change.kind for change in usage_changes(None, record, NOW) if change.begins is not None]
    assert billed == [UsageKind.GPU]
