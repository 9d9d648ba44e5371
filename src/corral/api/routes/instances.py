"""Routes that create instances, and read them and their operations."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Final, cast

import msgspec
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, FromQuery, QueryParameter

from corral.api.http.bodies import JsonResponse, body_of
from corral.api.http.context import context_of
from corral.api.http.parameters import ID_LIST, ONE_LINE, PRINTABLE
from corral.api.http.request_readers import RequestReader
from corral.api.middleware.auth import OPERATOR, VIEWER, check
from corral.api.middleware.idempotency import KEEPS_ANSWERS, REPORTS_PROBLEMS, committed, replayed
from corral.api.openapi.document import with_body
from corral.base.clock import Clock
from corral.domain.errors import FieldProblem, NotFoundError, SpecInvalidError
from corral.domain.idempotency import KeyRow
from corral.domain.instance import Labels
from corral.domain.lifecycle.phases import Phase
from corral.domain.operation import InstanceWithOperation
from corral.domain.requests.create import CREATE_BODY
from corral.domain.requests.labels import read_label_filter
from corral.engine.engine import Engine
from corral.engine.queries.instances import InstanceQueries
from corral.engine.queries.merged_listing import ListingOptions
from corral.store.tables.fleet.instance_pages import InstanceFilter
from corral.views.costs.costs import instance_cost
from corral.views.create_request import CreateRequestDetails, create_request_details
from corral.views.instance import InstanceView, operation_details
from corral.views.listing import ComprehensiveList, comprehensive_list
from corral.views.plan import CreatePlan, create_plan
from corral.views.schemas import InstanceCreated, InstanceDetails, InstanceList, OperationDetails, OperationList
from corral.views.summary import InstanceSummaryList

PATH: Final = "/api/instances"
ONE: Final = "/api/instances/{instance_id:str}"
AFTER: Final = "Begin after the instance with this id. In a long list this is faster than a large offset."
FIELDS: Final = "With `summary` only what a row of a table shows, at a quarter of the size."
IDS: Final = (
    "Only these instances: up to 100 of Corral's ids, separated by commas. Unknown ones are left out; the other "
    "filters and the page do not apply."
)
LABEL: Final = "A label that it has, as `key:value`; `key` alone for any value. Several must all be there."
TEXT: Final = "Part of its name, id, region, product, owner or of a label (`key:value`), in any case."
MOST_IDS: Final = 100
"""Rows of one batch. Fewer, and a page that follows a busy fleet sends more requests; more, and the address of the
request grows beyond what proxies take (8 kB, some 300 ids)."""
DRY_RUN: Final = "Return the offers that would be tried, and record nothing."
INCLUDE_NOVITA_ONLY: Final = "Whether to list what only the provider knows; DEFAULT_INCLUDE_NOVITA_ONLY when left out."
SYNC_LOCAL_STATE: Final = (
    "Look at the provider now and record what is seen, for which the role operator is needed; "
    "DEFAULT_SYNC_LOCAL_STATE when left out."
)
_LABELS: Final[dict[str, Any]] = {"examples": [["team:vision"]]}
_FLAG: Final[dict[str, Any]] = {"type": "boolean", "default": False}


class FieldSet(StrEnum):
    """How much of each instance is listed."""

    ALL = "all"
    SUMMARY = "summary"


class StatusFilter(StrEnum):
    """The statuses that a list can be filtered by: `active` is every one but `terminated`, `stopped` means `exited`."""

    ACTIVE = "active"
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

    def phases(self, view: InstanceView) -> list[Phase]:
        """The phases that it means."""
        if self is StatusFilter.ACTIVE:
            return [phase for phase in Phase if phase is not Phase.TERMINATED]
        return view.phases(Phase.EXITED if self is StatusFilter.STOPPED else Phase(self.value))


async def described(engine: Engine, known: InstanceWithOperation) -> InstanceDetails:
    """One instance as its own route shows it: with what it cost so far."""
    details = await engine.describer.details(known)
    details.cost = instance_cost(*await engine.costs.of_instance(known.instance.id))
    return details


def handlers(engine: Engine, reader: RequestReader, clock: Clock) -> list[HTTPRouteHandler]:
    """The routes of `/api/instances` and `/api/operations`."""
    return [_create(engine, reader), *_reads(engine), *_operations(engine.queries), _merged_listing(engine, clock)]


def _create(engine: Engine, reader: RequestReader) -> HTTPRouteHandler:
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
            200: ResponseSpec(data_container=CreatePlan, description="With `dryRun`: what would be tried, in order."),
        },
        opt={**OPERATOR, KEEPS_ANSWERS: True, REPORTS_PROBLEMS: True},
    )
    async def create_instance(
        request: Request[Any, Any, Any],
        dry_run: Annotated[Any, QueryParameter(name="dryRun", description=DRY_RUN, schema_extra=_FLAG)] = None,
    ) -> JsonResponse:
        """
        The request is recorded and the response sent at once; the machine is created in the background.

        Follow it with `GET /api/instances/{instance_id}`, the event stream or a webhook until it is `ready`. All
        invalid fields are reported together; an unknown product or template is a 404.
        """
        context = context_of(request.scope)
        is_dry, problems = _read_flag("dryRun", dry_run)
        wanted = await reader.read(await body_of(request), beside=(*context.problems, *problems))
        if is_dry:
            ranking, caller = await engine.create.plan(wanted.request), context.command(HTTPStatus.OK).caller
            found = await engine.create.standings(wanted.request, ranking, caller=caller, labels=wanted.labels)
            plan = create_plan(ranking, *found)
            return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(plan))
        command = context.command(HTTPStatus.CREATED)
        outcome = await engine.create.create(
            wanted.request,
            command,
            labels=wanted.labels,
            secrets=wanted.secrets,
            lease=wanted.lease,
            protected=wanted.protected,
        )
        if isinstance(outcome, KeyRow):
            return replayed(context, outcome)
        return committed(context, outcome.response, is_audited=True)

    return create_instance


def _reads(engine: Engine) -> list[HTTPRouteHandler]:
    @get(
        PATH,
        summary="List instances",
        tags=["instances"],
        responses={
            HTTPStatus.OK: ResponseSpec(
                data_container=cast("Any", InstanceList | InstanceSummaryList), description="One page."
            )
        },
        opt=VIEWER,
    )
    async def list_instances(
        *,
        status: FromQuery[StatusFilter | None] = None,
        name: Annotated[
            str | None, QueryParameter(max_length=100, pattern=PRINTABLE, description="The whole name.")
        ] = None,
        region: Annotated[
            str | None, QueryParameter(max_length=100, pattern=PRINTABLE, description="Region code.")
        ] = None,
        owner: Annotated[
            str | None, QueryParameter(max_length=100, pattern=PRINTABLE, description="The name in `createdBy`.")
        ] = None,
        label: Annotated[list[str] | None, QueryParameter(description=LABEL, schema_extra=_LABELS)] = None,
        q: Annotated[str | None, QueryParameter(max_length=100, pattern=ONE_LINE, description=TEXT)] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 100,
        offset: Annotated[int, QueryParameter(ge=0, le=1_000_000_000)] = 0,
        after: Annotated[str | None, QueryParameter(max_length=100, pattern=PRINTABLE, description=AFTER)] = None,
        fields: Annotated[FieldSet, QueryParameter(description=FIELDS)] = FieldSet.ALL,
        ids: Annotated[str | None, QueryParameter(max_length=4000, pattern=ID_LIST, description=IDS)] = None,
    ) -> JsonResponse:
        """Those that pass every filter. The status `active` is all but `terminated`; `stopped` means `exited`."""
        summaries = fields is FieldSet.SUMMARY
        if ids is not None:
            page = await engine.pages.named(_listed_ids(ids), summaries=summaries)
        else:
            phases = None if status is None else status.phases(engine.describer.view)
            labels, label_keys = _label_filter(label or [])
            wanted = InstanceFilter(
                phases=phases,
                name=name,
                region=region,
                created_by=owner,
                labels=labels,
                label_keys=label_keys,
                text=q or None,
            )
            page = await engine.pages.page(wanted, limit=limit, offset=offset, after=after, summaries=summaries)
        return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(page))

    @get(ONE, summary="Get an instance", tags=["instances"], opt=VIEWER)
    async def get_instance(instance_id: FromPath[str]) -> InstanceDetails:
        """By Corral's id or the provider's."""
        known = await engine.queries.instance(instance_id)
        return await described(engine, known)

    @get(f"{ONE}/request", summary="The request of one instance", tags=["instances"], opt=OPERATOR)
    async def get_create_request(instance_id: FromPath[str]) -> CreateRequestDetails:
        """
        To create another one like it.

        The address of its webhook and the query of its health check are left out, because they may hold a token.
        """
        return create_request_details((await engine.queries.instance(instance_id)).instance)

    return [list_instances, get_instance, get_create_request]


def _operations(queries: InstanceQueries) -> list[HTTPRouteHandler]:
    @get("/api/operations/{operation_id:str}", summary="Get an operation", tags=["operations"], opt=VIEWER)
    async def get_operation(operation_id: FromPath[str]) -> OperationDetails:
        """What was asked, and which steps were reached when."""
        return operation_details(await queries.operation(operation_id))

    @get(f"{ONE}/operations", summary="List operations of an instance", tags=["operations"], opt=VIEWER)
    async def list_operations(instance_id: FromPath[str]) -> OperationList:
        """The last hundred, newest first."""
        return OperationList(operations=[operation_details(o) for o in await queries.operations_of(instance_id)])

    return [get_operation, list_operations]


def _merged_listing(engine: Engine, clock: Clock) -> HTTPRouteHandler:
    defaults = engine.runtime.settings.listing

    @get(
        "/api/instances/comprehensive",
        summary="List instances of Corral and the provider",
        tags=["instances"],
        opt=VIEWER,
        responses={200: ResponseSpec(data_container=ComprehensiveList, description="Newest first.")},
    )
    async def list_all_instances(
        request: Request[Any, Any, Any],
        include_novita_only: Annotated[
            bool | None, QueryParameter(name="includeNovitaOnly", description=INCLUDE_NOVITA_ONLY)
        ] = None,
        sync_local_state: Annotated[
            bool | None, QueryParameter(name="syncLocalState", description=SYNC_LOCAL_STATE)
        ] = None,
    ) -> Response[bytes]:
        """The provider wins on status, region and ports. An unreachable provider is a warning and no error."""
        began = clock.monotonic()
        if not defaults.enabled:
            raise NotFoundError("the merged listing is switched off here (ENABLE_COMPREHENSIVE_LISTING=false)")
        if sync_local_state:
            check(OPERATOR, context_of(request.scope).identity)
        options = ListingOptions(
            include_novita_only=defaults.include_novita_only if include_novita_only is None else include_novita_only,
            sync_local_state=defaults.sync_local_state if sync_local_state is None else sync_local_state,
        )
        answer = await engine.listing.read(options)
        return Response(comprehensive_list(answer, seconds=clock.monotonic() - began), media_type="application/json")

    return list_all_instances


def _label_filter(texts: list[str]) -> tuple[Labels, tuple[str, ...]]:
    """The labels and the keys to filter by; raises SpecInvalidError."""
    labels, keys, problems = read_label_filter(texts)
    if problems:
        raise SpecInvalidError(problems)
    return labels, keys


def _listed_ids(text: str) -> list[str]:
    """The ids in *text*; raises SpecInvalidError for too many."""
    ids = list(dict.fromkeys(each for each in text.split(",") if each))
    if len(ids) > MOST_IDS:
        message = f"must have at most {MOST_IDS} ids"
        raise SpecInvalidError([FieldProblem(field="ids", code="INVALID_QUERY", message=message, shows_value=False)])
    return ids


def _read_flag(name: str, value: Any) -> tuple[bool, tuple[FieldProblem, ...]]:
    """A boolean of the query, and its problem; the framework would stop before the body is checked."""
    try:
        return value is not None and msgspec.convert(value, bool, strict=False), ()
    except msgspec.ValidationError:
        message = "must be true or false"
        return False, (FieldProblem(field=name, code="INVALID_QUERY", message=message, shows_value=False),)
