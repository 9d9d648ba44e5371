"""Responses about all leases: how many there are, and what follows from them now."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.leases.lease import EndCause
from corral.views.schemas import Time


class LeaseStats(msgspec.Struct, rename="camel"):
    """The leases of instances that are not terminated."""

    leases: Annotated[int, Meta(description="Instances that have a lease.")]
    max_duration: Annotated[int, Meta(description="Those with a maximum duration.")]
    idle: Annotated[int, Meta(description="Those with an idle rule.")]
    schedule: Annotated[int, Meta(description="Those with a schedule.")]
    ending_soon: Annotated[int, Meta(description="Those of which notice was given.")]
    extended: Annotated[int, Meta(description="Those that are extended now.")]
    ended_by_lease: Annotated[int, Meta(description="Those that their lease stopped, and that were not started since.")]
    next_end_at: Annotated[str | None, Meta(description="The earliest end of which notice was given.")]


class LeaseEnd(msgspec.Struct, rename="camel"):
    """An instance that its lease ends, if nothing changes."""

    instance_id: str
    name: str
    cause: Annotated[EndCause, Meta(description="Which part of its lease.")]
    reason: Annotated[str, Meta(description="The same, for people.")]
    ends_at: Annotated[Time, Meta(description="When: after the grace period.")]


class JudgedFleet(msgspec.Struct, rename="camel"):
    """What follows from all leases now."""

    dry_run: Annotated[bool, Meta(description="Whether nothing was written.")]
    judged: Annotated[int, Meta(description="How many leases were judged.")]
    ending: Annotated[list[LeaseEnd], Meta(description="The instances that will be ended, the next one first.")]
