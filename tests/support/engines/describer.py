"""The real describer over one test's database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from corral.base.clock import Clock
from corral.domain.lifecycle.policy import Policy
from corral.engine.queries.estimates import Estimates
from corral.engine.queries.instances import InstanceDescriber
from corral.store.session.database import Database
from corral.views.instance import InstanceView

VIEW = InstanceView(ready_word="ready", policy=Policy(), poll_interval=timedelta(seconds=30))


def a_describer(
    database: Database, clock: Clock, *, listings: Sequence[datetime] = (), view: InstanceView = VIEW
) -> InstanceDescriber:
    """*listings* are the times of the provider's listings; a list may grow later."""
    return InstanceDescriber(
        view=view,
        clock=clock,
        estimates=Estimates(database, clock),
        last_listing_at=lambda: max(listings, default=None),
    )
