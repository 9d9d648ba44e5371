"""The results of recent lookups, and when they are used."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from support.clock.clocks import SteppedClock
from support.engines.known import FRESH as REQUESTED
from support.engines.known import NOW
from support.provider.sightings import shown

from corral.domain.instance import ProviderId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import Sighting
from corral.engine.observe.recent_lookups import FRESH, MOST, RecentLookups

SEEN = shown("p1", Sighting.RUNNING)
UP = replace(
    REQUESTED,
    phase=Phase.RUNNING,
    provider_id=ProviderId("p1"),
    observation=replace(REQUESTED.observation, sighting=Sighting.RUNNING, sighted_at=NOW),
)


def test_what_was_seen_serves_one_pass() -> None:
    """The next reader, for which a field is missing, makes a new lookup."""
    recent_lookups = RecentLookups(SteppedClock())
    recent_lookups.keep(SEEN, NOW)

    assert [recent_lookups.take(UP, NOW), recent_lookups.take(UP, NOW)] == [SEEN, None]


def test_an_old_or_mismatched_lookup_is_not_used() -> None:
    """Something else was heard since, or so much time passed that it may be otherwise."""
    for instance, now in (
        (
            replace(UP, observation=replace(UP.observation, sighted_at=NOW + timedelta(seconds=1))),
            NOW + timedelta(seconds=1),
        ),
        (UP, NOW + FRESH + timedelta(seconds=1)),
        (replace(UP, provider_id=ProviderId("p2")), NOW),
        (replace(UP, provider_id=None), NOW),
    ):
        recent_lookups = RecentLookups(SteppedClock())
        recent_lookups.keep(SEEN, NOW)

        assert recent_lookups.take(instance, now) is None


def test_it_keeps_few() -> None:
    """Unused results must not accumulate."""
    recent_lookups = RecentLookups(SteppedClock())
    recent_lookups.keep(SEEN, NOW)
    for number in range(MOST):
        recent_lookups.keep(shown(f"q{number}", Sighting.RUNNING), NOW)
    assert recent_lookups.take(UP, NOW) is None
