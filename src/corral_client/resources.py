"""The rest of what can be looked at: products, templates, operations and jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import quote

from corral_client.models.instances import Operation
from corral_client.models.orders import BillingMode
from corral_client.models.plans import Plan
from corral_client.models.resources import (
    Job,
    JobPage,
    JobStats,
    ListedTemplate,
    Processing,
    Product,
    ProductList,
    Template,
    TemplateList,
)
from corral_client.transport import Transport


class AsyncProducts:
    """`client.products`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, *, name: str | None = None, region: str | None = None, billing_mode: BillingMode = "spot"
    ) -> list[Product]:
        """Products with *name* in their name, cheapest first."""
        query = {"name": name, "region": region, "billingMode": billing_mode}
        return (await self._transport.get(ProductList, "/api/products", query)).products

    async def optimal(
        self,
        name: str,
        *,
        region: str | None = None,
        billing_mode: BillingMode = "spot",
        spot_fallback: bool = False,
        max_price: float | None = None,
        gpu_num: int = 1,
    ) -> Plan:
        """What a create would choose now: the first candidate. Raises NotFound when no offer is available."""
        query = {
            "name": name,
            "region": region,
            "billingMode": billing_mode,
            "spotFallback": spot_fallback,
            "maxPrice": max_price,
            "gpuNum": gpu_num,
        }
        return await self._transport.get(Plan, "/api/products/optimal", query)


class AsyncTemplates:
    """`client.templates`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> list[ListedTemplate]:
        """Templates to choose from: the account's own first, then the provider's official ones."""
        return (await self._transport.get(TemplateList, "/api/templates")).templates

    async def get(self, template_id: str | int) -> Template:
        """One template of the provider."""
        return await self._transport.get(Template, f"/api/templates/{quote(str(template_id), safe='')}")


class AsyncOperations:
    """`client.operations`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, operation_id: str) -> Operation:
        """What was asked, and which steps were reached when."""
        return await self._transport.get(Operation, f"/api/operations/{quote(operation_id, safe='')}")


class AsyncJobs:
    """`client.jobs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self,
        *,
        type: str | None = None,  # noqa: A002  # the word of the API
        status: str | None = None,
        priority: str | None = None,
        instance_id: str | None = None,
        page_size: int = 100,
    ) -> AsyncGenerator[Job]:
        """All background jobs that match, newest first, read page by page as they are consumed."""
        offset = 0
        while True:
            query = {
                "type": type,
                "status": status,
                "priority": priority,
                "instanceId": instance_id,
                "limit": page_size,
                "offset": offset,
            }
            page = await self._transport.get(JobPage, "/api/jobs", query)
            for job in page.jobs:
                yield job
            offset += page_size
            if len(page.jobs) < page_size:
                return

    async def get(self, job_id: str) -> Job:
        """One job; finished ones are forgotten after a day."""
        return await self._transport.get(Job, f"/api/jobs/{quote(job_id, safe='')}")

    async def stats(self) -> JobStats:
        """The queue in numbers."""
        return await self._transport.get(JobStats, "/api/jobs/stats")

    async def pause(self) -> Processing:
        """Let no job begin until `resume`; creates, stops, deletes and webhooks wait, and machines are billed."""
        return await self._transport.act("POST", Processing, "/api/jobs/pause", key=None)

    async def resume(self) -> Processing:
        """Let jobs begin again."""
        return await self._transport.act("POST", Processing, "/api/jobs/resume", key=None)
