"""Routes that show how the provider's bill compares with usage, and compare a day now."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter

from corral.api.http.bodies import JsonResponse, body_of
from corral.api.http.context import context_of
from corral.api.http.request_readers import decoded
from corral.api.middleware.auth import ADMIN, VIEWER
from corral.api.openapi.document import with_body
from corral.domain.errors import FieldProblem, NotFoundError, SpecInvalidError
from corral.domain.requests.costs.reconciliation import DAY_PATTERN, RECONCILE_BODY, read_day, read_reconcile_request
from corral.domain.requests.fields import InvalidFieldError
from corral.engine.costs.bill_reconciler import BillReconciler
from corral.views.costs.reconciliation import DayComparison, DayComparisons, day_comparison

DAYS_LISTED: Final = 31
_COMPARED: Final = ResponseSpec(data_container=DayComparison, description="The day with its machines.")


def handlers(reconciler: BillReconciler) -> list[HTTPRouteHandler]:
    """The routes of `/api/costs/reconciliations`."""

    @get("/api/costs/reconciliations", summary="List days compared with the bill", tags=["costs"], opt=VIEWER)
    async def list_reconciliations(
        day: Annotated[
            str | None,
            QueryParameter(
                pattern=DAY_PATTERN,
                max_length=10,
                description="One day in UTC, with its machines; the last 31 days without theirs when left out.",
            ),
        ] = None,
    ) -> DayComparisons:
        """
        Each day is compared once the provider's bill should be complete, and again while the bill lacks rows.

        A bill is explained if it lies between the bounds of the usage; every other difference is named per machine.
        """
        if day is None:
            days = await reconciler.days(DAYS_LISTED)
            return DayComparisons(reconciliations=[day_comparison(each, with_machines=False) for each in days])
        try:
            wanted = read_day(day)
        except InvalidFieldError as error:
            raise SpecInvalidError(
                [FieldProblem(field="day", code="INVALID_DAY", message=str(error), value=day)]
            ) from None
        found = await reconciler.day(wanted)
        if found is None:
            raise NotFoundError(f"{day} was not compared with the bill", code="RECONCILIATION_NOT_FOUND")
        return DayComparisons(reconciliations=[day_comparison(found, with_machines=True)])

    @post(
        "/api/costs/reconciliations",
        summary="Compare a day with the bill now",
        tags=["costs"],
        status_code=HTTPStatus.OK,
        operation_class=with_body(RECONCILE_BODY),
        responses={HTTPStatus.OK: _COMPARED},
        opt=ADMIN,
    )
    async def reconcile_day(request: Request[Any, Any, Any]) -> JsonResponse:
        """
        Reads the provider's bill of the day, which may take some seconds, and replaces the day's result.

        Needed only to see it at once: Corral compares every day by itself (CORRAL_RECONCILE). If the bill cannot be
        read, the day keeps the result it has.
        """
        body, context = await body_of(request), context_of(request.scope)
        day = read_reconcile_request(decoded(body) if body.strip() else {}, reconciler.clock.now())
        if isinstance(day, tuple):
            raise SpecInvalidError(day)
        found = await reconciler.reconcile_day(day, context.success_line(HTTPStatus.OK))
        context.is_audited = True
        answer = day_comparison(found, with_machines=True)
        return JsonResponse(status=HTTPStatus.OK, body=msgspec.json.encode(answer))

    return [list_reconciliations, reconcile_day]
