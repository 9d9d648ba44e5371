"""Instances as rows of a list: what a table shows of each, at a quarter of the size of everything."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from corral.domain.operation import OperationKind
from corral.domain.placement.catalog import BillingMode
from corral.views.container import Image
from corral.views.leases.lease import EndsAt, EndsBecause, EndsReason, NotifiedAt, Quiet
from corral.views.schemas import TEMPLATE_ID, DataKeptUntil, ErrorDetails, InstanceDetails, Labels, Time


class InstanceSummary(msgspec.Struct, rename="camel"):
    """One instance as a row; every field is as in `InstanceDetails`."""

    id: Annotated[str, Meta(description="Corral's id.")]
    name: str
    status: str
    gpu_num: int
    product_name: str
    region: Annotated[str, Meta(description="Where it is, or is to be.")]
    template_id: Annotated[str | None, Meta(description=TEMPLATE_ID)]
    image: Image
    billing_mode: Annotated[BillingMode | None, Meta(description="Null when the provider has another word for it.")]
    price: Annotated[float | None, Meta(description="USD per hour for the whole instance.")]
    billed: Annotated[bool, Meta(description="Whether it costs that price now.")]
    novita_instance_id: Annotated[str | None, Meta(description="The provider's id, once there is one.")]
    created_at: Time
    created_by: Annotated[
        str | None,
        Meta(description="Name of the API key that created or adopted it, or `local`; null when that is not known."),
    ]
    labels: Labels
    data_kept_until: DataKeptUntil
    ready_at: Annotated[str | None, Meta(description="When it first became ready after a create or start.")]
    estimated_ready_time: Annotated[str | None, Meta(description="While it is coming up.")]
    stale: Annotated[bool, Meta(description="The provider could not be asked for two poll intervals.")]
    error: ErrorDetails | None
    reason: Annotated[str | None, Meta(description="What it waits for.")]
    allowed_actions: Annotated[
        list[OperationKind],
        Meta(description="The commands that would change it now: of start, stop, restart and delete."),
    ]
    ends_at: EndsAt = None
    ends_because: EndsBecause = None
    ends_reason: EndsReason = None
    notified_at: NotifiedAt = None
    quiet: Quiet = None


class InstanceSummaryList(msgspec.Struct):
    """One page of rows, newest first."""

    instances: list[InstanceSummary]
    total: Annotated[int, Meta(description="How many match in all.")]
    limit: int
    offset: int


_SAME: Final = [name for name in InstanceSummary.__struct_fields__ if name in InstanceDetails.__struct_fields__]


def summary_of(details: InstanceDetails) -> InstanceSummary:
    """The row of an instance."""
    row = InstanceSummary(*(getattr(details, name) for name in _SAME))
    if details.lease is not None:
        lease = details.lease
        row.ends_at, row.ends_because, row.ends_reason = lease.ends_at, lease.ends_because, lease.reason
        row.notified_at, row.quiet = lease.notified_at, lease.quiet
    return row
