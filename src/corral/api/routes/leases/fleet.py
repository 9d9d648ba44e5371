"""Stop every instance, and read the provider's list now: routes of the original system."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec

from corral.api.http.bodies import JsonResponse
from corral.api.http.context import context_of
from corral.api.middleware.auth import ADMIN, OPERATOR
from corral.domain.timing import iso
from corral.engine.engine import Engine
from corral.views.fleet import RefusedInstance, StoppedFleet, StoppedInstance, SyncedFleet

_RECORDED: Final = ResponseSpec(data_container=StoppedFleet, description="Recorded; they will be stopped.")


def handlers(engine: Engine) -> list[HTTPRouteHandler]:
    """The routes about the whole fleet."""

    @post(
        "/api/instances/stop-all",
        summary="Stop every instance",
        tags=["instances"],
        status_code=HTTPStatus.ACCEPTED,
        responses={HTTPStatus.ACCEPTED: _RECORDED},
        opt=ADMIN,
    )
    async def stop_all_instances(request: Request[Any, Any, Any]) -> JsonResponse:
        """
        Every instance of Corral, also adopted ones, by an ordinary stop each, with an audit line of its own.

        A machine that only the provider knows is not touched. One that is still being created is among `refused`: there
        is nothing to stop yet.
        """
        outcome = await engine.stop_all.record(context_of(request.scope).command(HTTPStatus.ACCEPTED))
        body = StoppedFleet(
            stopped=[
                StoppedInstance(
                    instance_id=one.id,
                    name=one.request.name,
                    status=engine.describer.view.status(one.phase),
                    operation_id=one.operation_id,
                )
                for one in outcome.stopped
            ],
            refused=[
                RefusedInstance(
                    instance_id=one.instance.id, name=one.instance.request.name, code=one.code, message=one.message
                )
                for one in outcome.refused
            ],
        )
        return JsonResponse(status=HTTPStatus.ACCEPTED, body=msgspec.json.encode(body))

    @post(
        "/api/instances/sync",
        summary="Read the provider's list now",
        tags=["instances"],
        status_code=HTTPStatus.OK,
        opt=OPERATOR,
    )
    async def sync_instances() -> SyncedFleet:
        """
        What the list shows is recorded before the response.

        Needed only to see a change at once: Corral lists the account by itself all the time. A machine that the list
        lacks counts as gone only after further listings.
        """
        listing, began = await engine.listing.sync()
        return SyncedFleet(listed=len(listing.instances), complete=listing.complete, listed_at=iso(began))

    return [stop_all_instances, sync_instances]
