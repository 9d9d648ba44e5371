"""How an instance is shown as it was at an instant that has passed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from support.clocks import SteppedClock
from support.known import FRESH, NOW

from corral.base.clock import FixedClock
from corral.domain.instance import Observation, ProviderId
from corral.domain.lifecycle.decision import Policy
from corral.domain.lifecycle.tables import Phase
from corral.domain.timestamps import iso
from corral.engine.queries.instances import InstanceWithOperation
from corral.views.instance import InstanceView

READY = replace(
    FRESH, phase=Phase.READY, provider_id=ProviderId("n-1"), started_at=NOW, observation=Observation(sighted_at=NOW)
)


def view(last_look_at: datetime | None) -> InstanceView:
    return InstanceView(
        clock=SteppedClock(NOW + timedelta(days=1)),
        estimates=cast("Any", None),  # asked only for instances that are coming up
        ready_word="ready",
        policy=Policy(),
        poll_interval=timedelta(seconds=30),
        last_look_at=lambda: last_look_at,
    )


async def test_what_was_seen_later_is_not_shown() -> None:
    """A message about an event a day ago says when the instance had last been seen then."""
    known = InstanceWithOperation(instance=READY, operation=None)
    at = NOW + timedelta(minutes=10)
    now, then = view(NOW + timedelta(days=1)), view(NOW + timedelta(days=1)).as_of(at)

    assert (await now.instance(known)).last_seen_at == iso(NOW + timedelta(days=1))
    shown = await then.instance(known)
    assert (shown.last_seen_at, shown.stale) == (iso(at), False)


async def test_an_instance_not_seen_for_long_was_stale_then() -> None:
    """The provider had not been listed for ten minutes at the event."""
    shown = (
        await view(NOW)
        .as_of(NOW + timedelta(minutes=10))
        .instance(InstanceWithOperation(instance=READY, operation=None))
    )

    assert (shown.last_seen_at, shown.stale) == (iso(NOW), True)
    assert not (await view(None).as_of(NOW).instance(InstanceWithOperation(instance=READY, operation=None))).stale


async def test_a_clock_that_stands_still_does_not_sleep() -> None:
    """A task that slept by it would never wake."""
    clock = FixedClock(NOW)

    assert (clock.now(), clock.monotonic()) == (NOW, clock.monotonic())
    with pytest.raises(RuntimeError):
        await clock.sleep(1)
