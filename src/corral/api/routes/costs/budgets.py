"""Set, read and remove budgets."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, delete, get, put
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath

from corral.api.http.bodies import JsonResponse, body_of
from corral.api.http.context import context_of
from corral.api.http.request_readers import read_budget_body
from corral.api.middleware.auth import ADMIN, VIEWER
from corral.api.middleware.idempotency import REPORTS_PROBLEMS
from corral.api.openapi.document import with_body
from corral.domain.requests.costs.budget import BUDGET_BODY
from corral.engine.engine import Engine
from corral.views.costs.budgets import BudgetDetails, BudgetList, budget_details

ONE: Final = "/api/budgets/{budget_name:str}"


def handlers(engine: Engine) -> list[HTTPRouteHandler]:
    """The routes of `/api/budgets`."""

    @get("/api/budgets", summary="List budgets", tags=["costs"], opt=VIEWER)
    async def list_budgets() -> BudgetList:
        """With how much of each is spent and reserved now."""
        return BudgetList(budgets=[budget_details(each) for each in await engine.budgets.all()])

    @get(ONE, summary="Get a budget", tags=["costs"], opt=VIEWER)
    async def get_budget(budget_name: FromPath[str]) -> BudgetDetails:
        """With how much of it is spent and reserved now."""
        return budget_details(await engine.budgets.get(budget_name))

    @put(
        ONE,
        summary="Set a budget",
        tags=["costs"],
        status_code=HTTPStatus.OK,
        operation_class=with_body(BUDGET_BODY, required=True),
        responses={
            HTTPStatus.OK: ResponseSpec(data_container=BudgetDetails, description="It replaces the one of that name."),
            HTTPStatus.CREATED: ResponseSpec(data_container=BudgetDetails, description="It is new."),
        },
        opt={**ADMIN, REPORTS_PROBLEMS: True},
    )
    async def set_budget(request: Request[Any, Any, Any], budget_name: FromPath[str]) -> JsonResponse:
        """
        Creates or replaces the budget of that name; it counts from the next create or start on.

        What was spent in the present period before counts too. Another scope, period or limit lets its thresholds be
        reported again.
        """
        context = context_of(request.scope)
        budget = read_budget_body(budget_name, await body_of(request), beside=context.problems)
        standing, is_new = await engine.budgets.put(budget, context.success_line(HTTPStatus.OK))
        context.is_audited = True
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return JsonResponse(status=status, body=msgspec.json.encode(budget_details(standing)))

    @delete(ONE, summary="Remove a budget", tags=["costs"], status_code=HTTPStatus.OK, opt=ADMIN)
    async def remove_budget(request: Request[Any, Any, Any], budget_name: FromPath[str]) -> BudgetDetails:
        """Returns it as it last stood. Machines that it stopped stay stopped."""
        context = context_of(request.scope)
        standing = await engine.budgets.remove(budget_name, context.success_line(HTTPStatus.OK))
        context.is_audited = True
        return budget_details(standing)

    return [list_budgets, get_budget, set_budget, remove_budget]
