"""The route that adopts a provider instance."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath

from corral.api.http.bodies import body_of
from corral.api.http.context import context_of
from corral.api.http.request_readers import RequestReader
from corral.api.middleware.auth import OPERATOR
from corral.api.middleware.idempotency import REPORTS_PROBLEMS
from corral.api.openapi.bodies import with_body
from corral.domain.requests.create import ADOPT_BODY
from corral.engine.commands.adopt import AdoptInstance
from corral.engine.queries.instance_details import InstanceDescriber
from corral.views.schemas import InstanceDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionServices:
    """What the route of adoptions calls."""

    adopt: AdoptInstance
    reader: RequestReader
    describer: InstanceDescriber


def handlers(services: AdoptionServices) -> list[HTTPRouteHandler]:
    """The route of adoptions."""

    @post(
        "/api/instances/{instance_id:str}/adopt",
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
    async def adopt_instance(request: Request[Any, Any, Any], instance_id: FromPath[str]) -> Response[bytes]:
        """By the provider's id. The machine is not changed; from now on it is observed, and can be deleted."""
        context = context_of(request.scope)
        adoption = await services.reader.read_adoption(await body_of(request), beside=context.problems)
        line = context.success_line(HTTPStatus.CREATED)
        known, is_new = await services.adopt.adopt(instance_id, adoption, line)
        context.is_audited = is_new
        details = await services.describer.details(known)
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return Response(msgspec.json.encode(details), status_code=status, media_type="application/json")

    return [adopt_instance]
