"""How an instance is shown as it was at an instant that has passed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from support.clock.clocks import SteppedClock
from support.engines.known import FRESH, NOW

from corral.domain.instance import Observation, ProviderId
from corral.domain.lifecycle.phases import Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.operation import InstanceWithOperation
from corral.domain.timing import iso
from corral.engine.queries.instances import InstanceDescriber
from corral.views.instance import InstanceView
from corral.views.schemas import InstanceDetails

READY = replace(
    FRESH, phase=Phase.READY, provider_id=ProviderId("n-1"), started_at=NOW, observation=Observation(sighted_at=NOW)
)


def details(last_listing_at: datetime | None, at: datetime | None = None) -> InstanceDetails:
    """What is shown of READY a day later, or what was shown at *at*."""
    describer = InstanceDescriber(
        view=InstanceView(ready_word="ready", policy=Policy(), poll_interval=timedelta(seconds=30)),
        clock=SteppedClock(NOW + timedelta(days=1)),
        estimates=cast("Any", None),  # used only for instances that are coming up
        last_listing_at=lambda: last_listing_at,
    )
    return asyncio.run(describer.details(InstanceWithOperation(instance=READY, operation=None), at=at))


def test_what_was_seen_later_is_not_shown() -> None:
    """A message about an event a day ago says when the instance had last been seen then."""
    at, a_day_later = NOW + timedelta(minutes=10), NOW + timedelta(days=1)
    shown = details(a_day_later, at)

    assert details(a_day_later).last_seen_at == iso(a_day_later)
    assert (shown.last_seen_at, shown.stale) == (iso(at), False)


def test_an_instance_not_seen_for_long_was_stale_then() -> None:
    """The provider had not been listed for ten minutes at the event."""
    shown = details(NOW, NOW + timedelta(minutes=10))

    assert (shown.last_seen_at, shown.stale) == (iso(NOW), True)
    assert not details(None, NOW).stale
