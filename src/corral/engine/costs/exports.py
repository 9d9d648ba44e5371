"""Exports of usage, read page by page, so that neither memory nor a connection is held for long."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import islice
from typing import Final

from corral.base.clock import Clock
from corral.domain.requests.costs.period import CostRequest
from corral.store.session.database import Database
from corral.store.tables.costs.exported import exported
from corral.views.costs.export import ExportFormat, header, lines

PAGE_SPANS: Final = 1000
"""Larger, and a page of spans that last for a month has more than 30,000 rows; smaller, and more queries are made."""
PIECE_LINES: Final = 100
"""A line takes 0.15 ms. More, and other requests wait longer for each piece; fewer, and more pieces are sent."""


class CostExports:
    """Exports usage of the installation with the id *installation*."""

    def __init__(self, database: Database, clock: Clock, *, installation: str) -> None:
        self._database = database
        self._clock = clock
        self._installation = installation

    async def export(self, request: CostRequest, chosen: ExportFormat) -> AsyncGenerator[str]:
        """
        The file, in pieces of whole lines; the first has the names of the columns.

        Raises SpecInvalidError before the first piece, and StoreUnavailableError.
        """
        now = self._clock.now()
        since, until = request.period(now)
        after: int | None = 0
        text = header(chosen)
        while after is not None:
            async with self._database.connection() as connection:
                parts, after = await exported(
                    connection, since=since, until=until, now=now, after=after, limit=PAGE_SPANS
                )
            while piece := list(islice(parts, PIECE_LINES)):
                yield text + lines(chosen, piece, self._installation)
                text = ""
                await self._clock.sleep(0)  # other requests
        if text:
            yield text
