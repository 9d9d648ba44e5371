"""Routes that show what is billed now and where that leads, and the account."""

from __future__ import annotations

from litestar import get
from litestar.handlers import HTTPRouteHandler

from corral.api.middleware.auth import VIEWER
from corral.engine.costs.account import AccountQueries
from corral.engine.costs.forecasts import CostForecasts
from corral.views.costs.forecast import AccountDetails, ForecastDetails, account_details, forecast_details


def handlers(forecasts: CostForecasts, account: AccountQueries) -> list[HTTPRouteHandler]:
    """The routes of `/api/costs/forecast` and `/api/account`."""

    @get("/api/costs/forecast", summary="Get what is billed now, and where that leads", tags=["costs"], opt=VIEWER)
    async def get_cost_forecast() -> ForecastDetails:
        """
        What is billed at this moment and why, and the cost of the month if all of it stays.

        Nothing is added to it: a forecast is no estimate of what users will do.
        """
        return forecast_details(await forecasts.current())

    @get("/api/account", summary="Get the balance and how long it lasts", tags=["costs"], opt=VIEWER)
    async def get_account() -> AccountDetails:
        """
        The balance as the provider says, read at most once a minute, and when it is used up at the present cost.

        When the provider cannot be asked, or does not answer within five seconds, `balance` is null and `problem` says
        why; the rest is there.
        """
        return account_details(await account.balance(), await forecasts.current())

    return [get_cost_forecast, get_account]
