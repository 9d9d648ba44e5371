"""Laws of the merged listing that hold for any records and any list."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.provider.sightings import shown

from corral.domain.instance import (
    CreateAttempt,
    CreateRequest,
    Instance,
    InstanceId,
    Observation,
    OperationId,
    ProviderId,
)
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.merge import Consistency, ProviderListing, merge
from corral.domain.observation.sighting import ProviderInstance, Sighting

NOW = datetime(2030, 1, 1, tzinfo=UTC)
MINE = "0a1b2c"
TIMES = st.none() | st.integers(-100, 100).map(lambda seconds: NOW + timedelta(seconds=seconds))
EXISTING = st.sampled_from([sighting for sighting in Sighting if sighting is not Sighting.ABSENT])


@st.composite
def records(draw: st.DrawFn) -> dict[InstanceId, Instance]:
    """Up to five, with provider ids of their own out of p0 to p9, or none."""
    provider_ids = draw(st.lists(st.none() | st.integers(0, 9), max_size=5).filter(_distinct))
    return {
        InstanceId(f"inst_{place}"): Instance(
            id=InstanceId(f"inst_{place}"),
            request=CreateRequest(name="a", product_name="x", template_id="1", regions=("CN-HK-01",)),
            goal=draw(st.sampled_from(Goal)),
            phase=draw(st.sampled_from(Phase)),
            operation_id=OperationId("op"),
            created_at=NOW + timedelta(seconds=draw(st.integers(-500, 0))),
            phase_since=NOW - timedelta(seconds=draw(st.integers(0, 500))),
            deadline_at=draw(TIMES),
            create=CreateAttempt(number=draw(st.integers(0, 2)), sent_at=draw(TIMES)),
            provider_id=None if provider_id is None else ProviderId(f"p{provider_id}"),
            observation=Observation(
                sighting=None if provider_id is None else draw(st.none() | st.sampled_from(Sighting)),
                sighted_at=draw(TIMES),
                unlisted_since=draw(TIMES),
            ),
        )
        for place, provider_id in enumerate(provider_ids)
    }


def _distinct(ids: list[int | None]) -> bool:
    known = [each for each in ids if each is not None]
    return len(known) == len(set(known))


@st.composite
def lists(draw: st.DrawFn) -> ProviderListing:
    ids = draw(st.lists(st.integers(0, 9), unique=True, max_size=8))
    names = st.sampled_from(
        ["web", "", *(f"corral-{m}-inst-{n}-{k}" for m in (MINE, "ffffff") for n in range(5) for k in (1, 2))]
    )
    listed: list[ProviderInstance] = [shown(f"p{each}", draw(EXISTING), name=draw(names)) for each in ids]
    return ProviderListing(listed=tuple(listed), complete=draw(st.booleans()), began=NOW, now=NOW + timedelta(hours=1))


@given(records(), st.none() | lists())
def test_each_is_there_exactly_once(local: dict[InstanceId, Instance], heard: ProviderListing | None) -> None:
    """Everything known to either side, once; nothing else."""
    found = merge(local, heard, policy=Policy(), installation=MINE)
    ours = Counter(item.instance.id for item in found if item.instance is not None)
    theirs = Counter(item.seen.id for item in found if item.seen is not None)

    assert ours == Counter(local.keys())
    assert theirs == Counter(seen.id for seen in (heard.listed if heard is not None else ()))
    assert [item.created_at for item in found if item.created_at is not None] == sorted(
        (item.created_at for item in found if item.created_at is not None), reverse=True
    )


@given(records(), lists())
def test_what_is_consistent_is_shown_as_recorded(local: dict[InstanceId, Instance], heard: ProviderListing) -> None:
    """And what is recorded later than the list began is never taken back by it."""
    for item in merge(local, heard, policy=Policy(), installation=MINE):
        if item.instance is None or item.seen is None:
            continue
        before = local[item.instance.id]
        if (
            before.observation.sighted_at is not None
            and before.observation.sighted_at > heard.began
            and before.provider_id is not None
        ):
            assert item.instance == before
        gone = before.phase is Phase.TERMINATED or before.observation.sighting is Sighting.ABSENT
        just_recorded = before.observation.sighted_at == heard.began  # then it is shown as the next pass will record it
        if item.consistency is Consistency.CONSISTENT and not gone and not just_recorded:
            assert item.instance.phase is before.phase


@given(records(), lists())
def test_once_recorded_the_provider_is_ahead_no_more(local: dict[InstanceId, Instance], heard: ProviderListing) -> None:
    """The listing shows what will be recorded; recorded, it agrees with itself."""
    first = merge(local, heard, policy=Policy(), installation=MINE)
    recorded = {item.instance.id: item.instance for item in first if item.instance is not None}
    second = merge(recorded, heard, policy=Policy(), installation=MINE)

    for item in second:
        assert item.instance is None or item.consistency is not Consistency.NOVITA_NEWER
        if item.instance is not None and item.seen is not None:
            assert replace(item.instance, generation=0) == replace(recorded[item.instance.id], generation=0)
