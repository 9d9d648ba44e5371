"""A create call is sent only soon after its intent, and only while the record is as it was."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.clock.clocks import SteppedClock

from corral.domain.errors import CloudTransientError, StaleError
from corral.engine.reconcile.send_check import SendCheck

LIMIT = timedelta(seconds=45)


async def unchanged() -> bool:
    return True


async def changed() -> bool:
    return False


async def test_it_passes_within_the_limit() -> None:
    """And says so, because from then on the call may have happened."""
    clock = SteppedClock()
    check = SendCheck(clock, LIMIT, unchanged)
    clock.advance(44)
    assert not check.passed
    await check()

    assert check.passed
    assert check.seconds_left == 1


async def test_a_changed_record_is_not_sent() -> None:
    """The user deleted it, or another worker took over."""
    check = SendCheck(SteppedClock(), LIMIT, changed)
    with pytest.raises(StaleError):
        await check()

    assert not check.passed


async def test_a_pause_during_the_query_counts() -> None:
    """The time is read after the database answered."""
    clock = SteppedClock()

    async def paused() -> bool:
        clock.advance(45)
        return True

    with pytest.raises(CloudTransientError):
        await SendCheck(clock, LIMIT, paused)()


async def test_a_host_that_was_suspended_is_noticed_by_the_services_clock() -> None:
    """The monotonic clock of Linux stops meanwhile."""
    clock = SteppedClock()
    check = SendCheck(clock, LIMIT, unchanged)
    clock.set_by(600)
    with pytest.raises(CloudTransientError):
        await check()


async def test_a_virtual_machine_that_was_paused_is_noticed_by_its_wall_clock_when_that_is_set() -> None:
    """No clock of the guest runs meanwhile; the wall clock is set right after it, before any comparison."""
    clock = SteppedClock()
    check = SendCheck(clock, LIMIT, unchanged)
    clock.set_wall_by(600)
    with pytest.raises(CloudTransientError):
        await check()
