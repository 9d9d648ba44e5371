"""Events as the API, streams and webhooks show them, and the body of a webhook."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from corral.domain.events import Event, EventType
from corral.domain.lifecycle.phases import Phase
from corral.domain.timing import iso
from corral.views.schemas import InstanceDetails

_ABOUT_HEALTH: Final = frozenset({EventType.HEALTH_CHECKING, EventType.READY, EventType.FAILED, EventType.TIMEOUT})


class EventError(msgspec.Struct):
    """Why the instance is failed."""

    code: str
    message: str


class EventDetails(msgspec.Struct, rename="camel"):
    """One event."""

    id: Annotated[str, Meta(description="Unique everywhere, and the same in every delivery of this event.")]
    seq: Annotated[int, Meta(description="Its place in the one order of all events, which has no gaps.")]
    event: EventType
    instance_id: Annotated[str | None, Meta(description="Null when it is not about one instance.")]
    novita_instance_id: str | None
    status: Annotated[str | None, Meta(description="The instance's status after the change; null without an instance.")]
    previous_status: str | None
    timestamp: str
    elapsed_time: Annotated[int | None, Meta(description="Milliseconds since its operation was requested.")]
    operation_id: Annotated[str | None, Meta(description="Null without an instance.")]
    reason: str
    error: EventError | None
    labels: Annotated[dict[str, str], Meta(description="The instance's labels after the change.")]
    data: Annotated[
        dict[str, object],
        Meta(
            description="The instance's name, and where it is placed once it is; of `instance.ending_soon` also"
            " `cause`, `reason` and `endsAt`. Of a budget: the budget and how much of it is used."
        ),
    ]


def event_details(event: Event, ready_word: str) -> EventDetails:
    """*event* as it is shown; *ready_word* is the public status of a ready instance."""

    def status(phase: Phase | None) -> str | None:
        return ready_word if phase is Phase.READY else None if phase is None else phase.value

    since, failure, before = event.since_asked, event.failure, event.previous_phase
    return EventDetails(
        id=event.id,
        seq=event.seq,
        event=event.type,
        instance_id=event.instance_id,
        novita_instance_id=event.provider_id,
        status=status(event.phase),
        previous_status=status(before),
        timestamp=iso(event.at),
        elapsed_time=None if since is None else int(since / timedelta(milliseconds=1)),
        operation_id=event.operation_id,
        reason=event.reason,
        error=None if failure is None else EventError(code=failure.code, message=failure.message),
        labels=dict(event.labels),
        data=dict(event.data),
    )


def webhook_body(event: EventDetails, instance: InstanceDetails | None) -> bytes:
    """The body of a webhook. `error` and `healthCheck` are left out of events that are not about them."""
    body = msgspec.to_builtins(event)
    data, error = body.pop("data"), body.pop("error")
    if error is not None:
        body["error"] = error
    shown = None if instance is None else msgspec.to_builtins(instance)
    if shown is not None and shown["healthCheck"] is not None and event.event in _ABOUT_HEALTH:
        body["healthCheck"] = shown["healthCheck"]
    return msgspec.json.encode({**body, "instance": shown, "data": data})
