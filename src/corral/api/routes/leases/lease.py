"""Routes of one instance's lease: change it, extend it, and report that the instance is used."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, patch, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath
from msgspec import Meta

from corral.api.http.bodies import JsonResponse, body_of
from corral.api.http.context import context_of
from corral.api.http.request_readers import read_extend, read_lease_merge, read_use
from corral.api.middleware.auth import OPERATOR
from corral.api.middleware.idempotency import KEEPS_ANSWERS, REPORTS_PROBLEMS, committed, replayed
from corral.api.openapi.document import with_body
from corral.api.routes.instances import ONE
from corral.domain.idempotency import KeyRow
from corral.domain.requests.lease_fields import EXTEND_BODY, LAST_USED_BODY, LEASE_CHANGE_BODY
from corral.domain.timing import iso
from corral.engine.engine import Engine
from corral.views.schemas import InstanceDetails

_CHANGED: Final = ResponseSpec(data_container=InstanceDetails, description="With its new lease.")
_EXTENDED: Final = ResponseSpec(data_container=InstanceDetails, description="With its later end.")


class LastUse(msgspec.Struct, rename="camel"):
    """The last use of an instance that is recorded."""

    instance_id: str
    last_used_at: Annotated[str, Meta(description="As recorded, which may be later than what was sent.")]


def handlers(engine: Engine) -> list[HTTPRouteHandler]:
    """The routes of `/api/instances/{instance_id}` that change its lease."""

    @patch(
        f"{ONE}/lease",
        summary="Change the lease of an instance",
        tags=["instances"],
        status_code=HTTPStatus.OK,
        operation_class=with_body(LEASE_CHANGE_BODY, required=True),
        opt={**OPERATOR, REPORTS_PROBLEMS: True},
        responses={HTTPStatus.OK: _CHANGED},
    )
    async def change_lease(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """
        A merge patch: what is left out stays as it is, null removes it. Allowed until the instance is deleted.

        A notice that was given is withdrawn; if the new lease ends the instance, too, notice is given again.
        """
        context = context_of(request.scope)
        change = read_lease_merge(await body_of(request), beside=context.problems)
        known, is_new = await engine.lease.change(instance_id, change, context.command(HTTPStatus.OK))
        context.is_audited = is_new
        return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(await engine.describer.details(known)))

    @post(
        f"{ONE}/extend",
        summary="Extend the lease of an instance",
        tags=["instances"],
        status_code=HTTPStatus.OK,
        operation_class=with_body(EXTEND_BODY, required=True),
        opt={**OPERATOR, KEEPS_ANSWERS: True, REPORTS_PROBLEMS: True},
        responses={HTTPStatus.OK: _EXTENDED},
    )
    async def extend_lease(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """
        `by` counts from its present end, or from now if that is later; `until` is the time itself.

        Until then nothing of its lease ends it; a notice that was given is withdrawn. It cannot live longer than
        CORRAL_MAX_TTL after it became ready.
        """
        context = context_of(request.scope)
        extension = read_extend(await body_of(request), beside=context.problems)
        outcome = await engine.lease.extend(instance_id, extension, context.command(HTTPStatus.OK))
        if isinstance(outcome, KeyRow):
            return replayed(context, outcome)
        return committed(context, outcome, is_audited=True)

    @put(
        f"{ONE}/last-used",
        summary="Report that an instance is used",
        tags=["instances"],
        status_code=HTTPStatus.OK,
        operation_class=with_body(LAST_USED_BODY),
        opt={**OPERATOR, REPORTS_PROBLEMS: True},
        responses={HTTPStatus.OK: ResponseSpec(data_container=LastUse, description="As recorded.")},
    )
    async def report_use(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """
        Now, or at `lastUsedAt`; a time in the future counts as now, and one before the last use changes nothing.

        For an idle rule with the signal `lastUsed` the instance is not idle for `after` from then, and a notice of that
        rule is withdrawn. `corral ssh` and `corral port-forward` send this once a minute.
        """
        context = context_of(request.scope)
        at = read_use(await body_of(request), beside=context.problems)
        own_id, last = await engine.lease.use(instance_id, at, context.command(HTTPStatus.OK))
        context.is_audited = True  # or need not be: a report a minute of each session would flood the log
        body = LastUse(instance_id=own_id, last_used_at=iso(last))
        return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(body))

    return [change_lease, extend_lease, report_use]
