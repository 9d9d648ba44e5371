"""When a connection counts as use."""

from __future__ import annotations

import pytest
from support.clock.clocks import SteppedClock

from corral.cli.remote.heartbeat import EVERY_SECONDS
from corral.cli.remote.traffic import LEAST_BYTES, Traffic

HOUR = 3600.0
KEEPALIVE = 84


def used_for(traffic: Traffic, clock: SteppedClock, *, pieces: int, of: int) -> float:
    """How long the connection counts as use, if so many pieces of so many bytes pass between two reports."""
    began = clock.monotonic()
    while traffic.is_used() and clock.monotonic() < began + 10 * HOUR:
        for _ in range(pieces):
            traffic.count(of)
        clock.advance(EVERY_SECONDS)
    return clock.monotonic() - began


@pytest.mark.parametrize(("pieces", "of"), [(0, 0), (8, KEEPALIVE)])
def test_a_connection_that_only_stays_open_counts_as_use_for_an_hour(pieces: int, of: int) -> None:
    """As that of a background ControlMaster, with or without keepalives of the user's ssh."""
    clock = SteppedClock()
    traffic = Traffic(clock)
    traffic.count(5000)

    assert HOUR < used_for(traffic, clock, pieces=pieces, of=of) <= HOUR + 2 * EVERY_SECONDS
    traffic.count(LEAST_BYTES)
    assert traffic.is_used(), "it is used again"


def test_a_connection_with_data_counts_as_use() -> None:
    clock = SteppedClock()

    assert used_for(Traffic(clock), clock, pieces=12, of=100) >= 10 * HOUR
