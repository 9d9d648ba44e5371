"""Instances as rows of a list: what a table shows of each, at a quarter of the size of everything."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.domain.operation import OperationKind
from corral.domain.placement.catalog import BillingMode
from corral.views.container import Image
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


class InstanceSummaryList(msgspec.Struct):
    """One page of rows, newest first."""

    instances: list[InstanceSummary]
    total: Annotated[int, Meta(description="How many match in all.")]
    limit: int
    offset: int


def summary_of(details: InstanceDetails) -> InstanceSummary:
    """The row of an instance."""
    return InstanceSummary(*(getattr(details, name) for name in InstanceSummary.__struct_fields__))
