"""Responses to commands that were recorded: the instance to be created, or the change to be made."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Final

import msgspec

from corral.domain.idempotency import StoredResponse
from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import OperationKind
from corral.domain.placement.pricing import usd
from corral.domain.timing import iso
from corral.views.instance import InstanceView
from corral.views.schemas import InstanceAction, InstanceCreated

_MESSAGES: Final = {
    OperationKind.START: "Instance start initiated successfully",
    OperationKind.STOP: "Instance stop initiated successfully",
    OperationKind.RESTART: "Instance restart initiated successfully",
    OperationKind.DELETE: "Instance deletion initiated successfully",
}
_ALREADY: Final = {Phase.EXITED: "stopped", Phase.STOPPING: "stopping"}


def created_response(instance: Instance, *, estimated_ready_at: datetime) -> StoredResponse:
    """The response to a create that was recorded as *instance*."""
    placement = instance.placement
    assert placement is not None, "a new instance has the placement it was ranked by"  # noqa: S101
    body = InstanceCreated(
        instance_id=instance.id,
        status=instance.phase,
        message="Instance creation initiated successfully",
        estimated_ready_time=iso(estimated_ready_at),
        operation_id=instance.operation_id,
        region=placement.region,
        product_id=placement.product_id,
        price=usd(placement.micro_usd),
    )
    return StoredResponse(status=HTTPStatus.CREATED, body=msgspec.json.encode(body))


def change_response(
    view: InstanceView, kind: OperationKind, instance: Instance, *, is_new: bool, estimated_ready_at: datetime | None
) -> StoredResponse:
    """The response to *kind* on *instance*; without *is_new* it was wanted or done already."""
    gone = kind is OperationKind.DELETE and instance.phase is Phase.TERMINATED
    stopped = kind is OperationKind.STOP and not is_new
    already = "deleted" if gone else _ALREADY[instance.phase] if stopped else None
    body = InstanceAction(
        instance_id=instance.id,
        novita_instance_id=instance.provider_id,
        status=view.status(instance.phase),
        message=_MESSAGES[kind] if already is None else f"Instance is already {already}",
        operation_id=instance.operation_id,
    )
    if estimated_ready_at is not None:
        body.estimated_ready_time = iso(estimated_ready_at)
    status = HTTPStatus.OK if stopped else HTTPStatus.ACCEPTED
    return StoredResponse(status=status, body=msgspec.json.encode(body))
