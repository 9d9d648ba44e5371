"""Look at what was sent to webhook receivers, and send it again."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated

import msgspec
from litestar import Request, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Meta

from corral.api.http.bodies import filled
from corral.api.http.context import context_of
from corral.api.middleware.auth import OPERATOR, VIEWER
from corral.api.routes.events import InstanceFilter
from corral.domain.delivery import Delivery, DeliveryId, DeliveryStatus
from corral.domain.errors import NotFoundError
from corral.domain.events import EventType
from corral.domain.timing import iso
from corral.engine.events.webhook_sender import WebhookSender


class AttemptDetails(msgspec.Struct, rename="camel"):
    """One attempt."""

    at: str
    http_status: Annotated[int | None, Meta(description="What the receiver answered; null when it did not.")]
    duration_ms: int
    error: str | None
    fate: Annotated[str, Meta(description="delivered, retry, final (refused for good) or stop (wants no more).")]


class DeliveryDetails(msgspec.Struct, rename="camel"):
    """One event on its way to one receiver."""

    id: str
    event_id: Annotated[str, Meta(description="Sent as `webhook-id` with every attempt.")]
    seq: Annotated[int | None, Meta(description="The event's place in the log; null until it was first read.")]
    event: EventType
    instance_id: Annotated[str | None, Meta(description="Null when the event is not about one instance.")]
    host: Annotated[str, Meta(description="Of the receiver's address; the rest may be a secret and is not shown.")]
    status: DeliveryStatus
    attempts: int
    next_attempt_at: str | None
    created_at: str
    ended_at: str | None
    history: Annotated[list[AttemptDetails], Meta(description="The last 20 attempts, newest first.")]


class DeliveryList(msgspec.Struct):
    """One page of deliveries, newest first."""

    deliveries: list[DeliveryDetails]
    total: int
    limit: int
    offset: int


def handlers(deliveries: WebhookSender) -> list[HTTPRouteHandler]:
    """The routes of `/api/webhooks`."""

    @get("/api/webhooks/deliveries", summary="List webhook deliveries", tags=["webhooks"], opt=VIEWER)
    async def list_deliveries(
        instance_id: InstanceFilter = None,
        status: FromQuery[DeliveryStatus | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 100,
        offset: Annotated[int, QueryParameter(ge=0, le=1_000_000)] = 0,
    ) -> DeliveryList:
        """With every attempt; kept for 30 days after the last."""
        found, total = await deliveries.page(instance_id=instance_id, status=status, limit=limit, offset=offset)
        return DeliveryList(deliveries=[_details(one) for one in found], total=total, limit=limit, offset=offset)

    @post(
        "/api/webhooks/deliveries/{delivery_id:str}/redeliver",
        summary="Redeliver a webhook",
        tags=["webhooks"],
        opt=OPERATOR,
        status_code=202,
    )
    async def redeliver_webhook(request: Request[object, object, State], delivery_id: FromPath[str]) -> DeliveryDetails:
        """
        The same message with the same `webhook-id`, soon, whatever became of it before.

        It is sent before later events of its instance that are still pending. A receiver that had answered 410 is
        called again from here on.
        """
        named = re.fullmatch(r"(?:dlv_)?([0-9]{1,18})", delivery_id)
        if named is None:
            raise NotFoundError(f"there is no delivery {delivery_id[:40]!r}")
        context = context_of(request.scope)
        again = await deliveries.redeliver(DeliveryId(int(named[1])), context.success_line(HTTPStatus.ACCEPTED))
        context.is_audited = True
        return _details(again)

    return [list_deliveries, redeliver_webhook]


def _details(delivery: Delivery) -> DeliveryDetails:
    return filled(
        DeliveryDetails,
        delivery,
        id=f"dlv_{delivery.id}",
        next_attempt_at=iso(delivery.next_at),
        history=[filled(AttemptDetails, attempt, fate=attempt.outcome) for attempt in delivery.history],
    )
