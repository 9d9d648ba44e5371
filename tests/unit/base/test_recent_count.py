"""What happened lately."""

from __future__ import annotations

from support.clock.clocks import SteppedClock

from corral.base.recent_count import RecentCount


def test_what_happened_within_the_last_seconds_is_counted_up_to_a_limit() -> None:
    """A worker takes, and a throttle asks for, as many more; after a pause none."""
    clock = SteppedClock()
    recent = RecentCount(clock, seconds=1.0, most=3)
    for _ in range(4):
        recent.note()
    at_once = recent.count()
    clock.advance(0.5)
    recent.note()
    clock.advance(0.75)
    soon = recent.count()
    clock.advance(0.5)

    assert (at_once, soon, recent.count()) == (3, 1, 0)
