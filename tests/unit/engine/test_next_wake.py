"""Whether a pass follows from what was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from support.engines.known import FRESH, NOW

from corral.domain.instance import Instance, Observation, ProviderId
from corral.domain.leases.lease import Lease, LeaseState
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.sighting import Sighting
from corral.engine.observe.observations import next_wake_at

BOOTING = replace(
    FRESH, phase=Phase.STARTING, provider_id=ProviderId("p1"), observation=Observation(sighting=Sighting.BOOTING)
)
DEADLINE = FRESH.deadline_at


def looked(instance: Instance) -> datetime | None:
    return next_wake_at(instance, NOW, Policy())


def test_nothing_follows_from_a_machine_that_still_boots() -> None:
    """Its deadline is kept in mind all the same."""
    assert looked(BOOTING) == DEADLINE


def test_a_pass_follows_from_whatever_changes_something() -> None:
    """A phase, something to do, or news of what is owed."""
    assert looked(replace(BOOTING, observation=replace(BOOTING.observation, sighting=Sighting.RUNNING))) is None
    assert looked(replace(BOOTING, goal=Goal.GONE)) is None
    assert looked(replace(BOOTING, pending=replace(BOOTING.pending, action=Action.START))) is None
    assert looked(replace(BOOTING, observation=replace(BOOTING.observation, unlisted_since=NOW))) is None
    assert looked(replace(BOOTING, deadline_at=NOW)) is None


def test_without_a_later_listing_the_instance_is_reconciled() -> None:
    """Without a wake-up time the instance would wait for ever."""
    assert (
        looked(
            replace(
                BOOTING,
                phase=Phase.READY,
                observation=replace(BOOTING.observation, sighting=Sighting.RUNNING),
                deadline_at=None,
            )
        )
        is None
    )


def test_a_lease_wakes_it_before_the_rest_does() -> None:
    """What is seen of a machine that the provider moves must not put the end of its lease off to its deadline."""
    state = LeaseState(lease=Lease(max_duration=timedelta(minutes=30), grace=timedelta(0)))
    moving = replace(BOOTING, phase=Phase.MIGRATING, observation=Observation(sighting=Sighting.MIGRATING))

    assert looked(moving) == DEADLINE
    assert looked(replace(moving, lease=state, ready_at=NOW - timedelta(minutes=20))) == NOW + timedelta(minutes=10)
