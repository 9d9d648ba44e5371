"""Start, stop, restart, delete, adopt and label instances, by id or by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, delete, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import Operation
from litestar.params import FromPath

from corral.api.http.bodies import JsonResponse, body_of
from corral.api.http.context import context_of
from corral.api.http.request_readers import RequestReader, read_change
from corral.api.middleware.auth import OPERATOR
from corral.api.middleware.idempotency import KEEPS_ANSWERS, REPORTS_PROBLEMS, committed, replayed
from corral.api.openapi.document import with_body
from corral.api.routes.instances import ONE, described
from corral.domain.idempotency import KeyRow
from corral.domain.operation import OperationKind
from corral.domain.requests.action import action_body
from corral.domain.requests.create import ADOPT_BODY
from corral.domain.requests.labels import CHANGE_BODY
from corral.engine.engine import Engine
from corral.views.schemas import InstanceAction, InstanceDetails

ACCEPTED: Final = 202
_DONE: Final = {200: ResponseSpec(data_container=InstanceAction, description="It is already stopped or stopping.")}
_START: Final = with_body(action_body(named=False, starts=True))
_STOP: Final = with_body(action_body(named=False, starts=False))
_START_NAMED: Final = with_body(action_body(named=True, starts=True), required=True)
_STOP_NAMED: Final = with_body(action_body(named=True, starts=False), required=True)

Act = Callable[[Request[Any, Any, Any], OperationKind, str | None], Awaitable[JsonResponse]]
"""Changes the instance with that id, or the one that the body names."""


def handlers(engine: Engine, reader: RequestReader) -> list[HTTPRouteHandler]:
    """The routes that change instances."""

    async def act(request: Request[Any, Any, Any], kind: OperationKind, given_id: str | None) -> JsonResponse:
        context = context_of(request.scope)
        terms = await reader.read_terms(await body_of(request), named=given_id is None, beside=context.problems)
        command = context.command(ACCEPTED)
        if given_id is None:
            given_id = await engine.change.named(kind, terms.name or "", context.success_line(ACCEPTED))
        outcome = await engine.change.record(kind, given_id, terms, command)
        if isinstance(outcome, KeyRow):
            return replayed(context, outcome)
        return committed(context, outcome.response, is_audited=outcome.is_audited)

    return [*_by_id(act), *_by_name(act), _adopt(engine, reader), _relabel(engine)]


def _by_id(act: Act) -> list[HTTPRouteHandler]:
    @post(f"{ONE}/start", **_route("Start an instance", _START))
    async def start_instance(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """Only a stopped one can be, or a failed one that the provider still has; nothing is ever deleted or moved."""
        return await act(request, OperationKind.START, instance_id)

    @post(f"{ONE}/stop", **_route("Stop an instance", _STOP, _DONE))
    async def stop_instance(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """
        The provider keeps its disk for some days (`dataKeptUntil`); a create, start or restart under way is cancelled.

        For an instance that is already stopped or stopping the response is 200, without a new operation.
        """
        return await act(request, OperationKind.STOP, instance_id)

    @post(f"{ONE}/restart", **_route("Restart an instance", _START))
    async def restart_instance(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """Only a running one can be."""
        return await act(request, OperationKind.RESTART, instance_id)

    @delete(ONE, **_route("Delete an instance", Operation))
    async def delete_instance(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """It stays `deleting` until the provider confirms; a repetition changes nothing."""
        return await act(request, OperationKind.DELETE, instance_id)

    return [start_instance, stop_instance, restart_instance, delete_instance]


def _by_name(act: Act) -> list[HTTPRouteHandler]:
    @post("/api/instances/start", **_route("Start an instance by name", _START_NAMED))
    async def start_named_instance(request: Request[Any, Any, Any]) -> JsonResponse:
        """
        Several live ones of that name are a 409 that lists their ids.

        A name that is unknown here is looked for at the provider, unless INSTANCE_STARTUP_ENABLE_NAME_LOOKUP is
        false; a stopped instance of exactly that name is adopted and started.
        """
        return await act(request, OperationKind.START, None)

    @post("/api/instances/stop", **_route("Stop an instance by name", _STOP_NAMED, _DONE))
    async def stop_named_instance(request: Request[Any, Any, Any]) -> JsonResponse:
        """Several live ones of that name are a 409 that lists their ids."""
        return await act(request, OperationKind.STOP, None)

    @post("/api/instances/delete", **_route("Delete an instance by name", _STOP_NAMED))
    async def delete_named_instance(request: Request[Any, Any, Any]) -> JsonResponse:
        """Several live ones of that name are a 409 that lists their ids."""
        return await act(request, OperationKind.DELETE, None)

    return [start_named_instance, stop_named_instance, delete_named_instance]


def _adopt(engine: Engine, reader: RequestReader) -> HTTPRouteHandler:
    @post(
        f"{ONE}/adopt",
        summary="Adopt an instance of the provider",
        tags=["instances"],
        status_code=201,
        operation_class=with_body(ADOPT_BODY),
        opt={**OPERATOR, REPORTS_PROBLEMS: True},
        responses={
            201: ResponseSpec(data_container=InstanceDetails, description="It is under management."),
            200: ResponseSpec(data_container=InstanceDetails, description="It already was; nothing changed."),
        },
    )
    async def adopt_instance(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """By the provider's id. The machine is not changed; from now on it is observed, and can be deleted."""
        context = context_of(request.scope)
        adoption = await reader.read_adoption(await body_of(request), beside=context.problems)
        known, is_new = await engine.adopt.adopt(instance_id, adoption, context.success_line(HTTPStatus.CREATED))
        context.is_audited = is_new
        details = await described(engine, known)
        return JsonResponse(status=HTTPStatus.CREATED if is_new else HTTPStatus.OK, body=msgspec.json.encode(details))

    return adopt_instance


def _relabel(engine: Engine) -> HTTPRouteHandler:
    @patch(
        ONE,
        summary="Change labels and protection of an instance",
        tags=["instances"],
        status_code=HTTPStatus.OK,
        operation_class=with_body(CHANGE_BODY, required=True),
        opt={**OPERATOR, REPORTS_PROBLEMS: True},
        responses={HTTPStatus.OK: ResponseSpec(data_container=InstanceDetails, description="As it is now.")},
    )
    async def label_instance(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> JsonResponse:
        """
        In every phase. `labels` replaces all labels; `protected` keeps budgets from stopping it.

        What is left out stays as it is, and the same values again change nothing.
        """
        context = context_of(request.scope)
        change = read_change(await body_of(request), beside=context.problems)
        known, is_new = await engine.relabel.replace(instance_id, change, context.command(HTTPStatus.OK))
        context.is_audited = is_new
        details = await described(engine, known)
        return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(details))

    return label_instance


def _route(
    summary: str, operation: type[Operation], others: Mapping[int, ResponseSpec] | None = None
) -> dict[str, Any]:
    """The arguments that all routes here share."""
    return {
        "summary": summary,
        "tags": ["instances"],
        "status_code": ACCEPTED,
        "operation_class": operation,
        "responses": {
            ACCEPTED: ResponseSpec(data_container=InstanceAction, description="Recorded; it will be done."),
            **(others or {}),
        },
        "opt": {**OPERATOR, KEEPS_ANSWERS: True, REPORTS_PROBLEMS: True},
    }
