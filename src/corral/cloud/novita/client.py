"""
The provider novita.ai as a `Cloud`.

Each method is one call (a listing: one for each page) and its translation. The exchange does rate limiting, breaker and
retries. Reads of the catalog are in `catalog.py`, those of the bill in `billing/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from corral.base.log import log
from corral.cloud.exchange import MEBIBYTE, Answer, Call, CallOutcome, Exchange, FaultError, Service
from corral.cloud.novita import measurements, templates, translate, values, wire
from corral.cloud.novita.billing.calls import NovitaBilling
from corral.cloud.novita.catalog import read_call
from corral.cloud.novita.faults import error_for
from corral.cloud.novita.paging import PAGE_SIZE, Page, read_all
from corral.cloud.port import BeforeSend, Listing, OnPage, ProviderCreate
from corral.domain.errors import CloudRefusedError
from corral.domain.machine.access import MachineAccess
from corral.domain.machine.utilization import Period, Utilization
from corral.domain.observation.sighting import ProviderInstance
from corral.domain.records import replace

METRICS_PATH: Final = "/openapi/v1/metrics/gpu/instance"
MOST_METRICS_BYTES: Final = 8 * MEBIBYTE
"""A day of eight GPUs at the finest interval is some 6 MB; less is asked for."""
MOST_LISTING_BYTES: Final = 32 * MEBIBYTE
"""A page of 100 instances is some 200 KB; a server that gives all 10,000 at once still fits, a bomb does not."""
PAGE_MAX_WAIT_SECONDS: Final = 300.0
"""
How long a page of the listing waits for a permit of the rate limiter.

One page given up wastes the whole listing; with the lowest limit and changes before it, a page gets a permit in 20 s.
"""
AWAITED_MAX_WAIT_SECONDS: Final = 75.0
"""
The same for the lookup of a machine that runs. Shorter than the minute after which a used-up limit has room, and its
job is put back behind creates and the machine is billed meanwhile; longer changes nothing.
"""
USER_MAX_WAIT_SECONDS: Final = 10.0
"""
The same for a read that a person waits for. Shorter, and a burst of other reads refuses it; longer, and the person
waits for an answer that `Retry-After` gives at once.
"""
MOST_UNKNOWN_STATUSES: Final = 100
"""Unknown statuses are logged once each, up to this many."""


class NovitaCloud(NovitaBilling):
    """One account at novita.ai."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._first_page: int | None = None
        self._unknown_statuses: set[str] = set()

    async def create(self, order: ProviderCreate, *, before_send: BeforeSend | None = None) -> str:
        """Ask for an instance and return the provider's id of it. Never repeated once it may have happened."""
        call = Call(
            endpoint="create",
            method="POST",
            path="/v1/gpu/instance/create",
            body=templates.order_body(order),
            about=order.name,
            missing_code="PRODUCT_NOT_FOUND",
            before_send=before_send,
        )
        answer = await self._ask(call, wire.Created)
        found = values.identity(answer.id)
        if not found:
            raise error_for(FaultError(CallOutcome.MAY_HAVE_HAPPENED, "an answer without an id"), call)
        return found

    async def instance(
        self, provider_id: str, *, awaited: bool = False, unseen: bool = False
    ) -> ProviderInstance | None:
        """One instance with its connection details; None when the provider says there is none."""
        call = read_call("instance", "/v1/gpu/instance", {"instanceId": provider_id}, about=provider_id, is_page=unseen)
        if awaited:
            call = replace(call, is_awaited=True, max_wait_seconds=AWAITED_MAX_WAIT_SECONDS)
        answer = await self._find(call, wire.Instance)
        if answer is None:
            return None
        found = translate.instance(answer, detailed=True)
        if found is None:
            # An empty answer is no proof of absence.
            raise error_for(FaultError(CallOutcome.MAY_HAVE_HAPPENED, "an answer without an id"), call)
        self._log_unknown_status(found.provider_status)
        return found

    async def machine_access(self, provider_id: str) -> MachineAccess | None:
        """The logins and log addresses of one instance, never cached; None when the provider says there is none."""
        call = read_call(
            "instance",
            "/v1/gpu/instance",
            {"instanceId": provider_id},
            about=provider_id,
            max_wait_seconds=USER_MAX_WAIT_SECONDS,
        )
        answer = await self._find(call, wire.Instance)
        return None if answer is None else translate.machine_access(answer)

    async def utilization(self, provider_id: str, within: Period) -> Utilization | None:
        """How busy one instance was; None when the provider says there is none."""
        query = {
            "instanceId": provider_id,
            "startTime": str(int(within.begin.timestamp())),
            "endTime": str(int(within.end.timestamp())),
            "interval": str(int(within.interval.total_seconds())),
        }
        call = read_call("metrics", METRICS_PATH, query, about=provider_id, most_bytes=MOST_METRICS_BYTES)
        call = replace(call, is_sample=True, service=Service.METRICS, max_wait_seconds=USER_MAX_WAIT_SECONDS)
        answer = await self._find(call, wire.Measurements)
        return None if answer is None else measurements.utilization(answer, within)

    async def instances(self, on_page: OnPage | None = None) -> Listing:
        """Every instance of the account, over all pages; calls *on_page* with each page as it arrives."""

        async def fetch(number: int, size: int) -> Page[ProviderInstance]:
            page = await self._page(number, size)
            if on_page is not None:
                on_page([found for _, found in page.items])
            return page

        reading = await read_all(fetch, first_number=self._first_page)
        self._first_page = reading.first_number
        return Listing(instances=reading.items, complete=reading.complete, pages=reading.calls)

    async def named(self, name: str) -> Listing:
        """
        The instances called *name*, by one call.

        The provider's filter is fuzzy and not documented: an empty answer is evidence only if the filter finds what is
        known to exist.
        """
        found = await self.named_like(name)
        return replace(found, instances=tuple(seen for seen in found.instances if seen.name == name))

    async def named_like(self, start: str) -> Listing:
        """The same for names that begin with *start*; an empty one gives the first page of the account."""
        page = await self._page(self._first_page or 0, PAGE_SIZE, name=start)
        if not page.items and page.total and self._first_page is None:  # this process has not listed the account yet
            page = await self._page(1, PAGE_SIZE, name=start)
        found = tuple(seen for _, seen in page.items if seen.name.startswith(start))
        return Listing(instances=found, complete=page.total == len(page.items), pages=1)

    async def start(self, provider_id: str, *, before_send: BeforeSend | None = None) -> None:
        """Ask for a start; *before_send* as for `create`."""
        await self._act("start", provider_id, before_send)

    async def stop(self, provider_id: str, *, before_send: BeforeSend | None = None) -> None:
        """Ask for a stop; *before_send* as for `create`."""
        await self._act("stop", provider_id, before_send)

    async def restart(self, provider_id: str, *, before_send: BeforeSend | None = None) -> None:
        """Ask for a restart; *before_send* as for `create`."""
        await self._act("restart", provider_id, before_send)

    async def delete(self, provider_id: str) -> bool:
        """Ask for deletion; returns False if the provider says that there is no such instance."""
        try:
            await self._act("delete", provider_id)
        except CloudRefusedError as refused:
            if refused.code != "INSTANCE_NOT_FOUND":
                raise
            return False
        return True

    async def _find(self, call: Call, answer: type[Answer]) -> Answer | None:
        """The answer about one instance; None when the provider says there is none."""
        try:
            return await self._exchange.ask(call, answer)
        except FaultError as fault:
            if fault.outcome is CallOutcome.GONE:
                return None
            raise error_for(fault, call) from fault

    async def _act(self, verb: str, provider_id: str, before_send: BeforeSend | None = None) -> None:
        call = Call(
            endpoint=verb,
            method="POST",
            path=f"/v1/gpu/instance/{verb}",
            body=msgspec.json.encode({"instanceId": provider_id}),
            about=provider_id,
            missing_code="INSTANCE_NOT_FOUND",
            is_urgent=verb in {"stop", "delete"},
            before_send=before_send,
        )
        await self._ask(call, wire.Nothing)

    async def _page(self, number: int, size: int, *, name: str = "") -> Page[ProviderInstance]:
        query = {"pageNum": str(number), "pageSize": str(size)}
        if name:
            query["name"] = name
        call = read_call(
            "instances",
            "/v1/gpu/instances",
            query,
            most_bytes=MOST_LISTING_BYTES,
            max_wait_seconds=PAGE_MAX_WAIT_SECONDS,
            is_page=True,
        )
        answer = await self._ask(call, wire.Instances)
        total = values.total(answer.total)
        if answer.instances is None and total is None:
            # An object with neither is not an empty account: every record would count as vanished.
            raise error_for(FaultError(CallOutcome.MAY_HAVE_HAPPENED, "an answer without instances"), call)
        items: list[tuple[str, ProviderInstance]] = []
        for seen in answer.instances or []:
            found = translate.instance(seen, detailed=False)
            if found is not None:
                self._log_unknown_status(found.provider_status)
                items.append((found.id, found))
        return Page(items=tuple(items), total=total, newest_first=_is_newest_first([found for _, found in items]))

    def _log_unknown_status(self, word: str) -> None:
        """Log a status of unknown meaning, the first time it occurs."""
        known = translate.is_known(word) or word in self._unknown_statuses
        if not known and len(self._unknown_statuses) < MOST_UNKNOWN_STATUSES:
            self._unknown_statuses.add(word)
            log.warning("cloud.word_unknown", word=word[:64])


def _is_newest_first(page: Sequence[ProviderInstance]) -> bool:
    """Whether creation times go down, and are not all the same."""
    times = [found.created_at for found in page if found.created_at is not None]
    return (
        len(times) == len(page) > 1
        and all(earlier >= later for earlier, later in pairwise(times))
        and times[0] > times[-1]
    )
