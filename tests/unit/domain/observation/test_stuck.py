"""What counts as no progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.engines.known import FRESH, NOW, altered

from corral.domain.instance import Observation, ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.observation.stuck import SHORTEST, stuck


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


INSTANCE = replace(
    FRESH,
    goal=Goal.GONE,
    phase=Phase.DELETING,
    created_at=ago(600),
    phase_since=ago(600),
    deadline_at=None,
    provider_id=ProviderId("p1"),
    observation=Observation(provider_status="running"),
)


@pytest.mark.parametrize(
    ("fields", "minutes", "reason"),
    [
        ({}, 10, "deleting for more than 10 minutes; the provider says running"),
        ({"phase": Phase.STOPPING}, 10, "stopping for more than 10 minutes"),
        ({"phase": Phase.RESTARTING}, 20, "restarting for more than 20 minutes"),
        ({"phase": Phase.MIGRATING}, 60, "migrating for more than 60 minutes"),
    ],
)
def test_a_phase_that_lasts_too_long(fields: dict[str, Any], minutes: float, reason: str) -> None:
    """Each has its own measure, to the second."""
    at_last = stuck(altered(INSTANCE, **fields, phase_since=ago(minutes)), NOW)
    not_yet = stuck(altered(INSTANCE, **fields, phase_since=ago(minutes - 0.01)), NOW)

    assert at_last is not None
    assert at_last.reason.startswith(reason)
    assert at_last.since == ago(minutes)
    assert not_yet is None


@pytest.mark.parametrize(
    ("fields", "since", "reason"),
    [
        ({"phase": Phase.CREATING, "provider_id": None, "create": {"sent_at": ago(10), "number": 2}},
         ago(10), "create call 2 may have happened"),
        ({"phase": Phase.READY, "observation": {"unlisted_since": ago(10), "absence_checks": 1}},
         ago(10), "missing in the provider's list, and 1 direct"),
        ({"phase": Phase.STARTING, "deadline_at": ago(5)}, ago(5), "past its deadline"),
    ],
)  # fmt: skip
def test_an_unsettled_create_absence_or_deadline_is_stuck(fields: dict[str, Any], since: datetime, reason: str) -> None:
    """These have a time of their own, whatever the phase."""
    found = stuck(altered(INSTANCE, **{"goal": Goal.RUNNING, **fields}), NOW)

    assert found is not None
    assert (found.since, found.instance_id) == (since, INSTANCE.id)
    assert found.reason.startswith(reason)
    assert found.next_step


@pytest.mark.parametrize(
    "fields",
    [
        {"phase": Phase.TERMINATED, "observation": {"unlisted_since": ago(100)}},
        {"phase": Phase.READY},
        {"phase": Phase.EXITED},
        {"phase": Phase.FAILED, "observation": {"sighting": Sighting.ABSENT, "unlisted_since": ago(100)}},
        {"phase": Phase.STARTING, "deadline_at": NOW},
        {"phase": Phase.CREATING, "provider_id": None, "create": {"sent_at": ago(9)}},
    ],
)
def test_what_rests_or_has_time_left_is_not_stuck(fields: dict[str, Any]) -> None:
    """It is no reason for an alert."""
    assert stuck(altered(INSTANCE, **fields), NOW) is None


def test_nothing_is_stuck_within_the_shortest_time() -> None:
    """The store is asked for candidates by it."""
    assert timedelta(minutes=5) == SHORTEST
