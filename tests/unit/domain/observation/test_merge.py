"""The rules of the merged listing, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.engines.known import FRESH, NOW, altered
from support.provider.sightings import shown

from corral.domain.instance import CreateAttempt, Instance, Observation, Placement, ProviderId
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.tables import FIRST_PHASE
from corral.domain.lifecycle.transitions import first_phase
from corral.domain.observation.merge import (
    Consistency,
    Merged,
    ProviderListing,
    Source,
    merge,
)
from corral.domain.observation.sighting import Endpoint, ProviderInstance, Sighting
from corral.domain.placement.catalog import BillingMode, PortKind

WEB = Endpoint(port=8080, kind=PortKind.HTTP, address="https://one")
OURS = replace(
    FRESH,
    phase=Phase.READY,
    created_at=NOW - timedelta(hours=1),
    phase_since=NOW - timedelta(hours=1),
    deadline_at=None,
    create=CreateAttempt(number=1),
    provider_id=ProviderId("p1"),
    placement=Placement(
        region="CN-HK-01", cluster_id="hk", product_id="x", billing_mode=BillingMode.SPOT, micro_usd=180_000
    ),
    observation=Observation(
        sighting=Sighting.RUNNING, provider_status="running", sighted_at=NOW - timedelta(minutes=5)
    ),
    started_at=NOW - timedelta(hours=1),
    endpoints=(WEB,),
)
NOT_CREATED = replace(
    OURS,
    phase=Phase.CREATING,
    provider_id=None,
    observation=replace(OURS.observation, sighting=None, sighted_at=None),
    create=replace(OURS.create, number=0),
)
RUNNING = shown("p1", Sighting.RUNNING)
AFTER = NOW + timedelta(seconds=1)
AHEAD = NOW + timedelta(hours=2)
"""Later than the listing's end: recorded before the clock was set back."""


def merged(ours: Instance, *listed: ProviderInstance, complete: bool = True) -> Merged:
    heard = ProviderListing(listed=listed, complete=complete, began=NOW, now=NOW + timedelta(hours=1))
    (item,) = merge({ours.id: ours}, heard, policy=Policy(), installation="0a1b2c")
    return item


@pytest.mark.parametrize(
    ("ours", "listed", "consistency", "phase"),
    [
        ({}, RUNNING, "consistent", "ready"),
        ({}, shown("p1", Sighting.EXITED), "novita-newer", "exited"),
        ({}, shown("p1", Sighting.MIGRATING), "novita-newer", "migrating"),
        ({"phase": Phase.STARTING, "observation": {"sighting": None}}, RUNNING, "novita-newer", "running"),
        ({"phase": Phase.STARTING, "observation": {"sighting": Sighting.BOOTING}},
         shown("p1", Sighting.BOOTING, failure="no such image"), "novita-newer", "failed"),
        ({"observation": {"unlisted_since": NOW}}, RUNNING, "novita-newer", "ready"),
        ({}, shown("p1", Sighting.RUNNING, cluster_id="sg"), "novita-newer", "ready"),
        ({}, shown("p1", Sighting.RUNNING, endpoints=(replace(WEB, address="https://two"),)), "novita-newer", "ready"),
        ({}, shown("p1", Sighting.RUNNING, endpoints=(replace(WEB, address=None),)), "consistent", "ready"),
        ({"goal": Goal.GONE, "phase": Phase.DELETING}, RUNNING, "local-newer", "deleting"),
        ({"goal": Goal.GONE, "phase": Phase.DELETING}, shown("p1", Sighting.REMOVING), "novita-newer", "deleting"),
        ({"goal": Goal.STOPPED, "phase": Phase.STOPPING}, RUNNING, "local-newer", "stopping"),
        ({"phase": Phase.STARTING, "observation": {"sighting": Sighting.EXITED}, "pending": {"action": Action.START}},
         shown("p1", Sighting.EXITED), "local-newer", "starting"),
        ({"phase": Phase.EXITED, "observation": {"sighting": Sighting.EXITED, "sighted_at": AFTER}}, RUNNING,
         "local-newer", "exited"),
        ({"observation": {"sighted_at": AHEAD}}, shown("p1", Sighting.EXITED), "novita-newer", "exited"),
        ({"observation": {"sighting": Sighting.ABSENT}, "phase": Phase.TERMINATED, "goal": Goal.GONE}, RUNNING,
         "conflicted", "deleting"),
        ({"observation": {"sighting": Sighting.ABSENT, "sighted_at": AFTER}, "phase": Phase.TERMINATED,
          "goal": Goal.GONE}, RUNNING,
         "local-newer", "terminated"),
        ({"observation": {"sighting": Sighting.ABSENT}, "phase": Phase.TERMINATED, "goal": Goal.GONE},
         shown("p1", Sighting.REMOVING), "consistent", "deleting"),
        ({}, shown("p1", Sighting.RUNNING, product_id="y"), "conflicted", "ready"),
        ({}, shown("p1", Sighting.RUNNING, gpu_num=2), "conflicted", "ready"),
        ({}, shown("p1", Sighting.RUNNING, product_id="x", gpu_num=1, cluster_id="hk"), "consistent", "ready"),
    ],
)  # fmt: skip
def test_what_both_know(ours: dict[str, Any], listed: ProviderInstance, consistency: str, phase: str) -> None:
    """The provider wins on status, and the response says which side is ahead."""
    item = merged(altered(OURS, **ours), listed)

    assert item.instance is not None
    assert (item.source, item.consistency, item.instance.phase) == (Source.MERGED, consistency, phase)


@pytest.mark.parametrize(
    ("ours", "complete", "consistency"),
    [
        (OURS, True, "conflicted"),
        (OURS, False, "local-newer"),
        (replace(OURS, observation=replace(OURS.observation, sighted_at=AFTER)), True, "local-newer"),
        (replace(OURS, observation=replace(OURS.observation, sighted_at=AHEAD)), True, "conflicted"),
        (
            replace(
                OURS,
                observation=replace(OURS.observation, sighting=None, sighted_at=None),
                started_at=NOW - timedelta(seconds=59),
            ),
            True,
            "local-newer",
        ),
        (
            replace(
                OURS,
                observation=replace(OURS.observation, sighting=None, sighted_at=None),
                started_at=NOW - timedelta(seconds=60),
            ),
            True,
            "conflicted",
        ),
        (NOT_CREATED, True, "consistent"),
        (replace(NOT_CREATED, create=replace(NOT_CREATED.create, sent_at=NOW)), True, "local-newer"),
        (
            replace(OURS, phase=Phase.FAILED, observation=replace(OURS.observation, sighting=Sighting.ABSENT)),
            True,
            "consistent",
        ),
    ],
)
def test_what_only_we_know(ours: Instance, consistency: str, *, complete: bool) -> None:
    """Whether it should have been listed decides."""
    item = merged(ours, complete=complete)

    assert item.instance is ours
    assert (item.source, item.consistency) == (Source.LOCAL, consistency)


def test_a_provider_that_was_not_asked_contradicts_nothing() -> None:
    """What we recorded is then the newest there is."""
    (item,) = merge({OURS.id: OURS}, None, policy=Policy(), installation="0a1b2c")

    assert (item.source, item.consistency, item.synced_at) == (Source.LOCAL, "local-newer", OURS.observation.sighted_at)


def test_a_create_with_a_lost_answer_is_merged_by_its_provider_name() -> None:
    """As the observer would adopt it; not shown twice, as ours and as foreign."""
    doubtful = replace(
        NOT_CREATED,
        create=replace(NOT_CREATED.create, number=1, sent_at=NOW - timedelta(seconds=9)),
    )
    item = merged(doubtful, shown("p9", Sighting.BOOTING))

    assert item.instance is not None
    assert (item.source, item.consistency) == (Source.MERGED, Consistency.NOVITA_NEWER)
    assert (item.instance.phase, item.instance.provider_id) == (Phase.STARTING, "p9")


def test_the_provider_wins_on_region_and_ports() -> None:
    """Unless it says the same, or nothing."""
    there = Endpoint(port=22, kind=PortKind.TCP, address="proxy:1")
    moved = merged(
        OURS, shown("p1", Sighting.RUNNING, cluster_id="sg", cluster_name="AS-SGP-02 (Singapore)", endpoints=(there,))
    ).instance
    unchanged = merged(OURS, RUNNING).instance

    assert moved is not None
    assert moved.placement is not None
    assert (moved.placement.region, moved.placement.cluster_id, moved.endpoints) == ("AS-SGP-02", "sg", (there,))
    assert unchanged is not None
    assert (unchanged.placement, unchanged.endpoints) == (OURS.placement, (WEB,))


def test_every_sighting_gives_a_first_phase() -> None:
    """A new sighting fails here until it has a row."""
    assert set(FIRST_PHASE) == set(Sighting)
    assert first_phase(shown("p", Sighting.BOOTING, failure="no such image")) is Phase.FAILED
    assert first_phase(shown("p", Sighting.EXITED, failure="was killed")) is Phase.EXITED


def test_the_newest_comes_first_and_the_undated_last() -> None:
    """By when it was wanted, or made."""
    listed = (
        shown("undated", Sighting.RUNNING, name="x"),
        shown("newest", Sighting.RUNNING, name="y", created_at=NOW),
        shown("oldest", Sighting.RUNNING, name="z", created_at=NOW - timedelta(days=9)),
        RUNNING,
    )
    heard = ProviderListing(listed=listed, complete=True, began=NOW, now=NOW + timedelta(hours=1))
    found = merge({OURS.id: OURS}, heard, policy=Policy(), installation="0a1b2c")

    assert [item.seen.id for item in found if item.seen is not None] == ["newest", "p1", "oldest", "undated"]
