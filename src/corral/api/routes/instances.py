"""Routes that create and read instances."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, FromQuery, QueryParameter

from corral.api.http.bodies import body_of
from corral.api.http.context import context_of
from corral.api.http.parameters import PRINTABLE
from corral.api.http.request_readers import RequestReader
from corral.api.http.responses import JsonResponse
from corral.api.middleware.auth import OPERATOR, VIEWER
from corral.api.middleware.idempotency import KEEPS_ANSWERS, REPORTS_PROBLEMS, committed, replayed
from corral.api.openapi.bodies import with_body
from corral.domain.errors import FieldProblem
from corral.domain.idempotency import KeyRow
from corral.domain.lifecycle.phases import Phase
from corral.domain.requests.create import CREATE_BODY
from corral.engine.commands.change import ChangeInstance
from corral.engine.commands.create import CreateInstance
from corral.engine.queries.instance_details import InstanceDescriber
from corral.engine.queries.instances import InstanceQueries
from corral.views.plan import PlanDetails, plan_details
from corral.views.schemas import InstanceCreated, InstanceDetails, InstanceList

PATH: Final = "/api/instances"
DRY_RUN: Final = "Return the offers that would be tried, and record nothing."
_FLAG: Final[dict[str, Any]] = {"type": "boolean", "default": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceServices:
    """What the routes of instances call."""

    create: CreateInstance
    change: ChangeInstance
    reader: RequestReader
    queries: InstanceQueries
    describer: InstanceDescriber


def handlers(services: InstanceServices) -> list[HTTPRouteHandler]:
    """The routes of `/api/instances`."""

    @post(
        PATH,
        summary="Create an instance",
        tags=["instances"],
        status_code=HTTPStatus.CREATED,
        operation_class=with_body(CREATE_BODY, required=True),
        responses={
            HTTPStatus.CREATED: ResponseSpec(
                data_container=InstanceCreated, description="Recorded; it is created in the background."
            ),
            200: ResponseSpec(data_container=PlanDetails, description="With `dryRun`: what would be tried, in order."),
        },
        opt={**OPERATOR, KEEPS_ANSWERS: True, REPORTS_PROBLEMS: True},
    )
    async def create_instance(
        request: Request[Any, Any, Any],
        dry_run: Annotated[Any, QueryParameter(name="dryRun", description=DRY_RUN, schema_extra=_FLAG)] = None,
    ) -> JsonResponse:
        """All invalid fields are reported together; an unknown product or template is a 404."""
        context = context_of(request.scope)
        is_dry, problems = _read_flag("dryRun", dry_run)
        order = await services.reader.read(await body_of(request), beside=(*context.problems, *problems))
        if is_dry:
            plan = plan_details(await services.create.plan(order))
            return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(plan))
        outcome = await services.create.create(order, context.command(HTTPStatus.CREATED))
        if isinstance(outcome, KeyRow):
            return replayed(context, outcome)
        return committed(context, outcome.response, is_audited=True)

    @get(PATH, summary="Instances, newest first", tags=["instances"], opt=VIEWER)
    async def list_instances(  # Litestar calls it by name
        status: FromQuery[StatusFilter | None] = None,
        name: Annotated[
            str | None, QueryParameter(max_length=100, pattern=PRINTABLE, description="The whole name.")
        ] = None,
        region: Annotated[
            str | None, QueryParameter(max_length=100, pattern=PRINTABLE, description="Region code.")
        ] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 100,
        offset: Annotated[int, QueryParameter(ge=0, le=1_000_000_000)] = 0,
    ) -> InstanceList:
        """Filter by status (`stopped` means `exited`), name and region."""
        found, total = await services.queries.page(
            phases=services.describer.view.phases(None if status is None else status.phase),
            name=name,
            region=region,
            limit=limit,
            offset=offset,
        )
        shown = [await services.describer.details(known) for known in found]
        return InstanceList(instances=shown, total=total, limit=limit, offset=offset)

    @get("/api/instances/{instance_id:str}", summary="One instance", tags=["instances"], opt=VIEWER)
    async def get_instance(instance_id: FromPath[str]) -> InstanceDetails:
        """By Corral's id or the provider's."""
        return await services.describer.details(await services.queries.instance(instance_id))

    return [create_instance, list_instances, get_instance]


class StatusFilter(StrEnum):
    """The statuses that a list can be filtered by; `stopped` means `exited`."""

    CREATING = Phase.CREATING
    STARTING = Phase.STARTING
    RUNNING = Phase.RUNNING
    HEALTH_CHECKING = Phase.HEALTH_CHECKING
    READY = Phase.READY
    STOPPING = Phase.STOPPING
    EXITED = Phase.EXITED
    STOPPED = "stopped"
    RESTARTING = Phase.RESTARTING
    MIGRATING = Phase.MIGRATING
    DELETING = Phase.DELETING
    TERMINATED = Phase.TERMINATED
    FAILED = Phase.FAILED

    @property
    def phase(self) -> Phase:
        """The phase that it means."""
        return Phase.EXITED if self is StatusFilter.STOPPED else Phase(self.value)


def _read_flag(name: str, value: Any) -> tuple[bool, tuple[FieldProblem, ...]]:
    """A boolean of the query, and its problem; the framework would stop before the body is checked."""
    try:
        return value is not None and msgspec.convert(value, bool, strict=False), ()
    except msgspec.ValidationError:
        message = "must be true or false"
        return False, (FieldProblem(field=name, code="INVALID_QUERY", message=message, shows_value=False),)
