"""The route that exports usage as a file."""

from __future__ import annotations

from typing import Annotated, Final

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter

from corral.api.http.text_stream import TextStream
from corral.api.middleware.auth import VIEWER
from corral.api.routes.costs.costs import PeriodEnd, PeriodStart
from corral.domain.errors import SpecInvalidError
from corral.domain.requests.costs.period import read_cost_request
from corral.engine.costs.exports import CostExports
from corral.views.costs.export import ExportFormat

_CONTENT: Final = (b"content-type", b"text/csv; charset=utf-8; header=present")


def handlers(exports: CostExports) -> list[HTTPRouteHandler]:
    """The route of `/api/costs/export`."""

    @get(
        "/api/costs/export",
        summary="Export usage and what it cost",
        tags=["costs"],
        opt=VIEWER,
        media_type="text/csv",
        responses={
            200: ResponseSpec(
                data_container=str,
                media_type="text/csv",
                description="A line with the names of the columns, then one for each span of usage and day.",
                generate_examples=False,
            )
        },
    )
    async def export_costs(
        format: Annotated[  # noqa: A002  # the name of the parameter
            ExportFormat,
            QueryParameter(description="`csv`: everything that is known; `focus`: the columns of FOCUS 1.2."),
        ] = ExportFormat.CSV,
        since: PeriodStart = None,
        until: PeriodEnd = None,
    ) -> TextStream:
        """
        One line for each span of usage and each UTC day that it touches: the lines add up to what `/api/costs` shows.

        Times that are not known exactly are in the middle of their bounds. A text that a spreadsheet would take for a
        formula has an apostrophe before it.
        """
        request = read_cost_request(since, until, None)
        if isinstance(request, tuple):
            raise SpecInvalidError(request)
        pieces = exports.export(request, format)
        name = b'attachment; filename="corral-costs-%s.csv"' % format.value.encode()
        # The first piece is made here: until then an error has a response of its own.
        return TextStream(await anext(pieces), pieces, headers=(_CONTENT, (b"content-disposition", name)))

    return [export_costs]
