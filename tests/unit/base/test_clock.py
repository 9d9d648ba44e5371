"""One clock for all processes on one database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from corral.base.clock import MOST_SKEW, SharedClock, SystemClock

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
    """Correcting the machine's clock needs no restart."""
    clock = SharedClock()
    compared(clock, SystemClock().now() - HOUR)
    assert compared(clock, SystemClock().now())

    assert clock.ahead == timedelta(0)


def test_a_slow_reading_says_too_little() -> None:
    """A busy machine must not set its clock by how long it waited."""
    clock = SharedClock()

    assert not compared(clock, datetime(2000, 1, 1, tzinfo=UTC), took=timedelta(seconds=3))
    assert clock.ahead == timedelta(0)


@dataclass
class Machine:
    """The clocks of a machine, as a test sets them."""

    wall: datetime = datetime(2030, 1, 1, 12, tzinfo=UTC)
    since_boot: float = 100.0

    def run(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.since_boot += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """What every SharedClock reads from now on."""
    machine = Machine()

    def wall(_clock: SystemClock) -> datetime:
        return machine.wall

    def since_boot(_clock: SystemClock) -> float:
        return machine.since_boot

    monkeypatch.setattr(SystemClock, "wall", wall)
    monkeypatch.setattr(SystemClock, "since_boot", since_boot)
    return machine


@pytest.mark.parametrize("set_by", [-2 * HOUR, 2 * HOUR])
def test_setting_the_machines_clock_changes_nothing_until_it_is_compared(machine: Machine, set_by: timedelta) -> None:
    """Ahead, deadlines would pass that are hours away; back, requests would be past theirs after the comparison."""
    clock = SharedClock()
    began = clock.now()
    machine.wall += set_by
    machine.run(1)
    assert clock.now() == began + timedelta(seconds=1)

    assert compared(clock, machine.wall), "the database's clock was set, too"
    assert clock.now() == machine.wall
    assert clock.ahead == timedelta(0)


def test_a_machines_clock_that_was_set_is_reported_once(machine: Machine) -> None:
    """The database's clock was not set: time continues by it, and the difference is logged."""
    clock = SharedClock()
    began = clock.now()
    machine.wall += HOUR
    assert compared(clock, began)
    assert (clock.now(), clock.ahead) == (began, HOUR)

    assert not compared(clock, began)
    machine.wall -= HOUR
    assert compared(clock, began)
    assert (clock.now(), clock.ahead) == (began, timedelta(0))
