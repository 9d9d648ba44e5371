"""One clock for all processes on one database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from corral.clock import MOST_SKEW, SharedClock, SystemClock

HOUR = timedelta(hours=1)


def compared(clock: SharedClock, reference: datetime, *, took: timedelta = timedelta(milliseconds=2)) -> bool:
    """One reading of the database's clock, in the middle of *took*."""
    now = clock.now()
    return clock.compare(asked=now - took / 2, reference=reference, answered=now + took / 2)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_a_clock_that_is_off_is_corrected(ahead: timedelta) -> None:
    """A worker an hour ahead failed every create two seconds after it was asked for."""
    clock = SharedClock()
    assert compared(clock, SystemClock().now() - ahead)

    assert abs(clock.now() - (SystemClock().now() - ahead)) < timedelta(seconds=1)
    assert abs(clock.ahead - ahead) < timedelta(seconds=1)


def test_small_differences_change_nothing() -> None:
    """Else time would jitter with every reading, and might run backwards."""
    clock = SharedClock()
    assert not compared(clock, SystemClock().now() + MOST_SKEW / 2)
    assert clock.ahead == timedelta(0)

    compared(clock, SystemClock().now() - HOUR)
    assert not compared(clock, SystemClock().now() - HOUR + MOST_SKEW / 2)


def test_a_clock_that_was_set_right_is_used_again() -> None:
    """An operator who corrects the machine's clock need not restart anything."""
    clock = SharedClock()
    compared(clock, SystemClock().now() - HOUR)
    assert compared(clock, SystemClock().now())

    assert clock.ahead == timedelta(0)


def test_a_slow_reading_says_too_little() -> None:
    """A busy machine must not set its clock by how long it waited."""
    clock = SharedClock()

    assert not compared(clock, datetime(2000, 1, 1, tzinfo=UTC), took=timedelta(seconds=3))
    assert clock.ahead == timedelta(0)


def test_a_clock_that_is_set_back_goes_on_until_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time does not run backwards in between; the database's clock then says whether it was right to set it."""
    wall, monotonic = datetime(2030, 1, 1, 12, tzinfo=UTC), 100.0

    def read_wall(_clock: SystemClock) -> datetime:
        return wall

    def read_monotonic(_clock: SystemClock) -> float:
        return monotonic

    monkeypatch.setattr(SystemClock, "now", read_wall)
    monkeypatch.setattr(SystemClock, "monotonic", read_monotonic)
    clock = SharedClock()
    began = clock.now()
    wall, monotonic = wall - timedelta(hours=2), 101.0

    assert clock.now() == began + timedelta(seconds=1)
    assert clock.now() == began + timedelta(seconds=1), "it is corrected once"

    assert compared(clock, wall), "the database's clock was set back, too"
    assert clock.now() == wall
