"""Instances as they are shown at an instant: the view, with the clock, the last listing and the estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from corral.base.clock import Clock
from corral.domain.operation import InstanceWithOperation
from corral.engine.queries.estimates import Estimates
from corral.views.instance import AsOf, InstanceView
from corral.views.schemas import InstanceDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceDescriber:
    """Shows instances to callers of the API, in the merged listing and in webhooks."""

    view: InstanceView
    clock: Clock
    estimates: Estimates
    last_listing_at: Callable[[], datetime | None]

    async def details(self, known: InstanceWithOperation, *, at: datetime | None = None) -> InstanceDetails:
        """What is shown of *known* now, or what was shown at *at*."""
        now, listed_at = self.clock.now() if at is None else at, self.last_listing_at()
        then = AsOf(now=now, last_listing_at=None if listed_at is None else min(listed_at, now))
        ready_at = None
        if known.operation is not None and self.view.has_estimate(known):
            ready_at = await self.estimates.ready_at(known.instance.request.product_name, known.operation.created_at)
        return self.view.details(known, then, estimated_ready_at=ready_at)
