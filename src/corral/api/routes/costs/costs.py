"""The route that shows what usage cost."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter

from corral.api.http.bodies import JsonResponse
from corral.api.http.parameters import PRINTABLE
from corral.api.middleware.auth import VIEWER
from corral.domain.errors import SpecInvalidError
from corral.domain.requests.costs.period import LONGEST_GROUPING, LONGEST_TIME, MOST_GROUPS, read_cost_request
from corral.engine.costs.cost_queries import CostQueries
from corral.views.costs.costs import CostDetails

PeriodStart = Annotated[
    str | None,
    QueryParameter(
        name="from",
        max_length=LONGEST_TIME,
        pattern=PRINTABLE,
        description="Where the period begins, in ISO 8601: a day, or a time (UTC unless it says otherwise). "
        "The beginning of the month when left out.",
    ),
]
PeriodEnd = Annotated[
    str | None,
    QueryParameter(
        name="to", max_length=LONGEST_TIME, pattern=PRINTABLE, description="Where it ends; now when left out."
    ),
]


def handlers(costs: CostQueries) -> list[HTTPRouteHandler]:
    """The route of `/api/costs`."""

    @get(
        "/api/costs",
        summary="Get what usage cost",
        tags=["costs"],
        opt=VIEWER,
        responses={200: ResponseSpec(data_container=CostDetails, description="What the period cost.")},
    )
    async def get_costs(
        since: PeriodStart = None,
        until: PeriodEnd = None,
        group_by: Annotated[
            str | None,
            QueryParameter(
                name="groupBy",
                max_length=LONGEST_GROUPING,
                pattern=PRINTABLE,
                description="`instance`, `key` (who created it), `product`, `region`, `cause`, `day` (UTC) or "
                "`label:NAME`; no groups when left out.",
            ),
        ] = None,
        *,
        limit: Annotated[int, QueryParameter(ge=1, le=MOST_GROUPS, description="The most groups to list.")] = 1000,
        per_day: Annotated[
            bool, QueryParameter(name="perDay", description="Whether each group also has its days, in UTC.")
        ] = False,
    ) -> JsonResponse:
        """
        GPUs from *pulling* until stopped, and disks above the free 60 GB while their machine exists.

        Usage is known from observations, so each amount has bounds: the bill lies between `low` and `high`. Costs of
        machines that run count up to now. Machines that belong to no record (`cause` orphan, duplicate or overlap)
        are counted, too.
        """
        request = read_cost_request(since, until, group_by, limit, per_day=per_day)
        if isinstance(request, tuple):
            raise SpecInvalidError(request)
        return JsonResponse(status=HTTPStatus.OK, body=await costs.summary(request))

    return [get_costs]
