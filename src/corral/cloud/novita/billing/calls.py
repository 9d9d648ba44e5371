"""The calls to the provider's billing service."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from corral.cloud.exchange import MEBIBYTE, CallOutcome, FaultError, Service
from corral.cloud.novita.billing import translate, wire
from corral.cloud.novita.catalog import NovitaCatalog, read_call
from corral.cloud.novita.faults import error_for
from corral.domain.costs.bill import Balance, BillCategory, BillCycle, BillRow, BillRows
from corral.domain.errors import CloudError
from corral.domain.records import replace

BILL_PATH: Final = "/openapi/v1/billing/bill/list"
BALANCE_PATH: Final = "/openapi/v1/billing/balance/detail"
MOST_BILL_BYTES: Final = 32 * MEBIBYTE
"""A row is some 450 bytes: a day of two thousand machines by the hour, half over."""
LAST_SECOND: Final = timedelta(seconds=1)
"""The provider counts the end of a period as part of it."""


class NovitaBilling(NovitaCatalog):
    """The bill and the balance of an account at novita.ai."""

    async def balance(self) -> Balance:
        """The money of the account, never cached."""
        call = replace(read_call("balance", BALANCE_PATH, {}), service=Service.BILLING)
        found = translate.balance(await self._ask(call, wire.BalanceAnswer))
        if found is None:
            raise error_for(FaultError(CallOutcome.MAY_HAVE_HAPPENED, "an answer without a balance"), call)
        return found

    async def time(self) -> datetime | None:
        """The time by the provider's clock: also a refusal shows it."""
        with suppress(CloudError):
            await self.balance()
        return self._exchange.provider_time

    async def bill_rows(
        self, category: BillCategory, *, since: datetime, until: datetime, cycle: BillCycle = BillCycle.HOUR
    ) -> BillRows:
        """The rows of the bill that begin in [since, until)."""
        query = {
            "cycleType": cycle.value,
            "productCategory": category.value,
            "startTime": str(int(since.timestamp())),
            "endTime": str(int((until - LAST_SECOND).timestamp())),
        }
        # As a page, so that reads which a person or a machine waits for overtake it.
        call = read_call("bills", BILL_PATH, query, about=category.value, most_bytes=MOST_BILL_BYTES, is_page=True)
        call = replace(call, service=Service.BILLING)
        # There may be a hundred thousand rows, for which other requests must not wait.
        found = await asyncio.to_thread(translate.bill_rows, await self._ask(call, wire.Bills))
        if found is None:
            # An object without rows is not an empty bill: every machine would count as not billed.
            raise error_for(FaultError(CallOutcome.MAY_HAVE_HAPPENED, "an answer without bills"), call)
        return replace(found, rows=tuple(row for row in found.rows if _is_in(row, since, until)))


def _is_in(row: BillRow, since: datetime, until: datetime) -> bool:
    return since <= row.started_at < until
