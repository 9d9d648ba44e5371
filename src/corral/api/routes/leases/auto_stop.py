"""Routes of the original's auto-stop: how many leases there are, and judging all of them now."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec

from corral.api.http.bodies import JsonResponse, body_of, filled
from corral.api.http.context import context_of
from corral.api.http.request_readers import decoded
from corral.api.middleware.auth import OPERATOR, VIEWER
from corral.api.openapi.document import with_body
from corral.domain.requests.fields import BOOLEAN, Field, body_schema
from corral.domain.timing import iso
from corral.engine.engine import Engine
from corral.views.leases.auto_stop import JudgedFleet, LeaseEnd, LeaseStats

_DRY_RUN: Final = "Anything but `false`, or nothing: only report."
_TRIGGER_BODY: Final = body_schema(
    "May be left out.", {"dry_run": Field("dryRun", "VALIDATION_ERROR", BOOLEAN, _DRY_RUN, False)}
)


def handlers(engine: Engine) -> list[HTTPRouteHandler]:
    """The routes of `/api/instances/auto-stop`."""

    @get("/api/instances/auto-stop/stats", summary="Count leases", tags=["instances"], opt=VIEWER)
    async def get_auto_stop_stats() -> LeaseStats:
        """Of instances that are not terminated."""
        return filled(LeaseStats, await engine.judge_leases.counts())

    @post(
        "/api/instances/auto-stop/trigger",
        summary="Judge all leases now",
        tags=["instances"],
        status_code=HTTPStatus.OK,
        operation_class=with_body(_TRIGGER_BODY),
        responses={HTTPStatus.OK: ResponseSpec(data_container=JudgedFleet, description="What follows from them.")},
        opt=OPERATOR,
    )
    async def trigger_auto_stop(request: Request[Any, Any, Any]) -> JsonResponse:
        """
        Unless `dryRun` is literally `false`, this only reports, and writes nothing, not even an audit line.

        With `false` it also gives the notices and applies the ends that are due, by the same rules as always: nothing
        ends without a notice before. Needed only to see it at once, because Corral judges leases by itself.
        """
        body, context = await body_of(request), context_of(request.scope)
        sent = decoded(body) if body.strip() else {}
        is_dry = not (isinstance(sent, dict) and sent.get("dryRun") is False)
        found = await engine.judge_leases.judge(None if is_dry else context.success_line(HTTPStatus.OK))
        context.is_audited = True
        ending = [
            LeaseEnd(
                instance_id=one.instance.id,
                name=one.instance.request.name,
                cause=one.cause,
                reason=one.reason,
                ends_at=iso(one.ends_at),
            )
            for one in found.ending
        ]
        answer = JudgedFleet(dry_run=is_dry, judged=found.judged, ending=ending)
        return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(answer))

    return [get_auto_stop_stats, trigger_auto_stop]
