"""When a stop or delete is sent again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from support.engines.known import FRESH, NOW

from corral.domain.instance import Observation, PendingAction, ProviderId
from corral.domain.lifecycle.decide import decide
from corral.domain.lifecycle.pending_action import is_first_without_effect
from corral.domain.lifecycle.phases import Action, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.sighting import Sighting

POLICY = Policy()
SENT = replace(
    FRESH,
    provider_id=ProviderId("p1"),
    goal=Goal.STOPPED,
    phase=Phase.STOPPING,
    deadline_at=None,
    observation=Observation(
        sighting=Sighting.RUNNING, provider_status="running", sighted_at=NOW - timedelta(seconds=60)
    ),
    pending=PendingAction(sent_at=NOW, ended_at=NOW + timedelta(seconds=1), sent_on=Sighting.RUNNING, attempts=1),
)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("began", "seen", "counts"),
    [
        (0.5, Sighting.RUNNING, False),  # begun while the call was under way
        (1.5, Sighting.RUNNING, True),
        (1.5, Sighting.BOOTING, True),
        (1.5, Sighting.STOPPING, False),
        (1.5, Sighting.EXITED, False),
        (1.5, Sighting.REMOVING, False),
    ],
)
def test_an_observation_counts_only_if_it_began_after_the_call_and_shows_no_effect(
    began: float, seen: Sighting, *, counts: bool
) -> None:
    """What was observed before the call ended shows nothing about its effect."""
    assert is_first_without_effect(SENT, seen, at(began)) is counts


def test_stopping_is_no_effect_of_a_delete() -> None:
    """It may be what a person did in the console; the machine keeps its disk, and its bill."""
    deleted = replace(SENT, goal=Goal.GONE, phase=Phase.DELETING)

    assert is_first_without_effect(deleted, Sighting.STOPPING, at(2))
    assert not is_first_without_effect(deleted, Sighting.REMOVING, at(2))


def test_only_the_first_such_observation_is_recorded() -> None:
    """One write for each call, however many listings there are until the next."""
    observed = replace(SENT, observation=replace(SENT.observation, sighted_at=at(2)))

    assert not is_first_without_effect(observed, Sighting.RUNNING, at(4))


def test_a_call_with_an_unknown_outcome_is_given_time() -> None:
    """Its worker died: an observation counts from when the call was surely over."""
    crashed = replace(SENT, pending=replace(SENT.pending, ended_at=None))

    assert not is_first_without_effect(crashed, Sighting.RUNNING, at(14))
    assert is_first_without_effect(crashed, Sighting.RUNNING, at(16))


def test_repeats_follow_observations_with_growing_pauses() -> None:
    """At once, then 2 s after the call before, 4 s, and so on; and by the clock where nothing is observed."""
    observed = replace(SENT, observation=replace(SENT.observation, sighted_at=at(2)))
    third = replace(observed, pending=replace(observed.pending, attempts=3))

    assert decide(SENT, at(14), POLICY).action is None
    assert decide(SENT, at(15), POLICY).action is Action.STOP
    assert decide(observed, at(2), POLICY).action is Action.STOP
    assert decide(third, at(4.9), POLICY).action is None
    assert decide(third, at(5), POLICY).action is Action.STOP


def test_an_accepted_call_waits_for_an_observation_for_two_minutes() -> None:
    """One that shows no effect repeats it at once all the same."""
    accepted = replace(SENT, pending=replace(SENT.pending, accepted=True))
    observed = replace(accepted, observation=replace(SENT.observation, sighted_at=at(2)))

    assert decide(accepted, at(15), POLICY).requeue_after == timedelta(seconds=105)
    assert decide(accepted, at(119), POLICY).action is None
    assert decide(accepted, at(120), POLICY).action is Action.STOP
    assert decide(observed, at(2), POLICY).action is Action.STOP


def test_what_is_seen_up_at_last_is_stopped_at_once() -> None:
    """It refused while it was booting, ten times; now it can."""
    booting = replace(
        SENT,
        observation=replace(SENT.observation, sighting=Sighting.BOOTING, sighted_at=at(2)),
        pending=replace(SENT.pending, sent_on=Sighting.BOOTING, attempts=10),
    )
    up = replace(
        booting,
        observation=replace(booting.observation, sighting=Sighting.RUNNING, sighted_at=at(4)),
    )

    assert decide(booting, at(4), POLICY).action is None
    assert decide(up, at(4), POLICY).action is Action.STOP
