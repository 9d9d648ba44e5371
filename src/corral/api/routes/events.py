"""Read the log of everything that happened, page by page or as it happens."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.response import Stream
from msgspec import Meta

from corral.api.http.parameters import ID_CHARACTERS
from corral.api.middleware.auth import VIEWER, still_admitted
from corral.engine.auth.api_keys import ApiKeys
from corral.engine.events.log import EventLog
from corral.engine.events.stream import EventStream
from corral.views.event import EventDetails

MOST_SEQ = 2**63 - 1
_STREAM_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy that collects answers would hold events back
}

After = Annotated[int, QueryParameter(ge=0, le=MOST_SEQ, description="The last `seq` you have seen; 0 for the start.")]
Limit = Annotated[int, QueryParameter(ge=1, le=500)]
Last = Annotated[
    int | None,
    QueryParameter(ge=1, le=500, description="Only the newest so many, still oldest first; `limit` is then not used."),
]
InstanceFilter = Annotated[
    str | None, QueryParameter(name="instanceId", max_length=100, pattern=ID_CHARACTERS, description="Corral's id.")
]


class EventPage(msgspec.Struct, rename="camel"):
    """Some events, oldest first."""

    events: list[EventDetails]
    next_after: Annotated[int, Meta(description="What to pass as `after` for the next page.")]
    limit: int


def handlers(event_log: EventLog, hub: EventStream, keys: ApiKeys) -> list[HTTPRouteHandler]:
    """The routes of `/api/events`."""

    @get("/api/events", summary="List events", tags=["events"], opt=VIEWER)
    async def list_events(
        after: After = 0, instance_id: InstanceFilter = None, limit: Limit = 100, last: Last = None
    ) -> EventPage:
        """One log for all instances, without gaps: once number n was read, no new event gets a number up to n."""
        limit, newest = last or limit, last is not None
        found = await event_log.page(after=after, limit=limit, instance_id=instance_id, newest=newest)
        return _page(found, after, limit)

    @get("/api/instances/{instance_id:str}/events", summary="List events of an instance", tags=["events"], opt=VIEWER)
    async def list_events_of_instance(
        instance_id: FromPath[str], after: After = 0, limit: Limit = 100, last: Last = None
    ) -> EventPage:
        """Named by Corral's id or the provider's; oldest first."""
        limit, newest = last or limit, last is not None
        return _page(await event_log.page_of(instance_id, after=after, limit=limit, newest=newest), after, limit)

    @get(
        "/api/events/stream",
        summary="Stream events",
        tags=["events"],
        opt=VIEWER,
        media_type="text/event-stream",
        responses={
            200: ResponseSpec(
                data_container=EventDetails,
                media_type="text/event-stream",
                description="Server-sent events; the `data` of each is one event.",
                generate_examples=False,
            )
        },
    )
    async def stream_events(
        request: Request[Any, Any, Any],
        last_event_id: Annotated[int | None, HeaderParameter(name="Last-Event-ID", ge=0, le=MOST_SEQ)] = None,
        after: Annotated[int | None, QueryParameter(ge=0, le=MOST_SEQ)] = None,
        instance_id: InstanceFilter = None,
    ) -> Stream:
        """
        Server-sent events whose `id` is the `seq`; a comment comes at least every 15 s.

        Resumes after `Last-Event-ID`, which browsers send by themselves when they reconnect, or else after `after`;
        with neither it begins with the next event. Revoking the key ends the stream with the next comment, and for a
        user of a proxy it ends after ten minutes.
        """
        seen = await hub.place(after if last_event_id is None else last_event_id)
        is_allowed = still_admitted(request.scope, keys)
        return Stream(hub.follow(seen, instance_id=instance_id, is_allowed=is_allowed), headers=_STREAM_HEADERS)

    return [list_events, list_events_of_instance, stream_events]


def _page(found: list[EventDetails], after: int, limit: int) -> EventPage:
    return EventPage(events=found, next_after=found[-1].seq if found else after, limit=limit)
