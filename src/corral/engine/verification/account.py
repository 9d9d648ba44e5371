"""Reads an account: what is sold, what it has, its list, and one of its instances. Nothing is changed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from corral.cloud.exchange import Service
from corral.cloud.novita.billing.calls import BALANCE_PATH, BILL_PATH
from corral.cloud.novita.client import METRICS_PATH
from corral.cloud.novita.paging import PAGE_SIZE
from corral.cloud.novita.raw import RawCalls
from corral.domain.costs.bill import BillCategory, BillCycle
from corral.domain.placement.catalog import region_code
from corral.domain.verification.evidence import AccountProbe, ProviderAnswer
from corral.domain.verification.json_values import array, mapping, objects, text
from corral.engine.verification.calls import RecordedCalls

LIST_PATH: Final = "/v1/gpu/instances"
INSTANCE_PATH: Final = "/v1/gpu/instance"
METRICS_SPAN: Final = timedelta(minutes=30)
"""How far back measurements are read: enough to find the newest one of a provider that is late."""
BILL_SPAN: Final = timedelta(days=1)
MOST_BILL_SPAN: Final = timedelta(days=30)
"""The provider gives at most 31 days at once."""
METRICS_INTERVAL_SECONDS: Final = 15


class AccountReading:
    """The probes of one account, as far as they were sent."""

    def __init__(self, calls: RecordedCalls) -> None:
        self._calls = calls
        self.answers: dict[AccountProbe, ProviderAnswer] = {}
        self.first_page = 0
        """The number of the first page of the list, as far as it is known."""

    async def read_first(self) -> ProviderAnswer:
        """Read the clusters, which every key may."""
        return await self._get(AccountProbe.CLUSTERS, "/v1/clusters")

    async def read_catalog(self) -> None:
        """Read what is sold and what the account has, but for instances."""
        await self._get(AccountProbe.PRODUCTS, "/v1/products", {"billingMethod": "onDemand"})
        await self._get(AccountProbe.SPOT_PRODUCTS, "/v1/products", {"billingMethod": "spot"})
        cluster_id = self._cluster_with_products()
        if cluster_id:
            query = {"billingMethod": "onDemand", "clusterId": cluster_id}
            await self._get(AccountProbe.CLUSTER_PRODUCTS, "/v1/products", query)
        official = {"channel": "official", "isMyCommunity": "false"}
        await self._get(AccountProbe.TEMPLATES, "/v1/templates", official | _page(0, PAGE_SIZE))
        await self._get(AccountProbe.TEMPLATES_PAGE_0, "/v1/templates", official | _page(0, 1))
        await self._get(AccountProbe.TEMPLATES_PAGE_1, "/v1/templates", official | _page(1, 1))
        template_id = next((text(item.get("Id")) for item in self._items(AccountProbe.TEMPLATES, "template")), "")
        if template_id:
            await self._get(AccountProbe.TEMPLATE, "/v1/template", {"templateId": template_id})
        await self._get(AccountProbe.AUTHS, "/v1/repository/auths")
        for number_, probe in enumerate((AccountProbe.VOLUMES_PAGE_0, AccountProbe.VOLUMES_PAGE_1)):
            query = {"pageNo": str(number_), "pageSize": "1"}
            await self._get(probe, "/v1/networkstorages/list", query)
        await self._get(AccountProbe.BALANCE, BALANCE_PATH, service=Service.BILLING)

    async def read_bill(self, since: datetime | None) -> None:
        """Read the rows of GPUs in the bill of the last day, or from *since* on if that is earlier."""
        now = self._calls.clock.now()
        first = max(min(since or now, now - BILL_SPAN), now - MOST_BILL_SPAN)
        query = {
            "cycleType": BillCycle.HOUR.value,
            "productCategory": BillCategory.GPU.value,
            "startTime": str(int(first.timestamp()) // 3600 * 3600),
            "endTime": str(int(now.timestamp())),
        }
        await self._get(AccountProbe.BILL, BILL_PATH, query, service=Service.BILLING)

    async def read_refusals(self, wrong_key: RawCalls) -> None:
        """Ask for what does not exist, and once with a key that is none."""
        await self._get(AccountProbe.UNKNOWN_INSTANCE, INSTANCE_PATH, {"instanceId": secrets.token_hex(8)})
        await self._get(
            AccountProbe.UNKNOWN_TEMPLATE, "/v1/template", {"templateId": f"9{secrets.randbelow(10**9):09}"}
        )
        refused = await wrong_key.get("/v1/clusters")
        self._calls.answers.append(refused)
        self.answers[AccountProbe.WRONG_KEY] = refused

    async def read_instances(self, provider_id: str | None = None) -> None:
        """Read the list, and the instance *provider_id* or else one of the list, a running one if there is."""
        await self._get(AccountProbe.LIST_PAGE_0, LIST_PATH, _page(0, 1))
        await self._get(AccountProbe.LIST_PAGE_1, LIST_PATH, _page(1, 1))
        if not self._items(AccountProbe.LIST_PAGE_0, "instances") and self._items(
            AccountProbe.LIST_PAGE_1, "instances"
        ):
            self.first_page = 1
        whole = _page(self.first_page, PAGE_SIZE)
        await self._get(AccountProbe.LIST, LIST_PATH, whole)
        await self._get(AccountProbe.BY_NO_NAME, LIST_PATH, whole | {"name": f"none-{secrets.token_hex(8)}"})
        listed = self._items(AccountProbe.LIST, "instances")
        chosen = next((item for item in listed if item.get("id") == provider_id), None) or next(
            iter(sorted(listed, key=lambda item: item.get("status") != "running")), {}
        )
        name, status = text(chosen.get("name")), text(chosen.get("status"))
        found_id = provider_id or text(chosen.get("id"))
        if name:
            await self._get(AccountProbe.BY_NAME, LIST_PATH, whole | {"name": name})
            start = name[: max(1, len(name) * 2 // 3)]
            await self._get(AccountProbe.BY_NAME_START, LIST_PATH, whole | {"name": start})
        if status:
            await self._get(AccountProbe.BY_STATUS, LIST_PATH, whole | {"status": status})
        if found_id:
            await self._get(AccountProbe.INSTANCE, INSTANCE_PATH, {"instanceId": found_id})
        if found_id and status == "running":
            await self.read_metrics(found_id)

    async def read_metrics(self, provider_id: str) -> None:
        """Read the measurements of a running instance."""
        now = self._calls.clock.now()
        query = {
            "instanceId": provider_id,
            "startTime": str(int((now - METRICS_SPAN).timestamp())),
            "endTime": str(int(now.timestamp())),
            "interval": str(METRICS_INTERVAL_SECONDS),
        }
        await self._get(AccountProbe.METRICS, METRICS_PATH, query, service=Service.METRICS)

    def products(self) -> list[Mapping[str, object]]:
        """The products on demand, as they were read."""
        return self._items(AccountProbe.PRODUCTS, "data")

    def has_samples(self) -> bool:
        """Whether the measurements have any sample."""
        answer = self.answers.get(AccountProbe.METRICS)
        return answer is not None and bool(objects(mapping(answer.content).get("cpuUtilization")))

    def _cluster_with_products(self) -> str:
        """The cluster of the first product that is in stock; empty if its regions name none."""
        clusters = self._items(AccountProbe.CLUSTERS, "data")
        for product in self.products():
            regions = [text(region) for region in array(product.get("regions"))]
            for cluster in clusters if product.get("availableDeploy") is True else ():
                names = {text(cluster.get("id")), text(cluster.get("name")), region_code(text(cluster.get("name")))}
                if names & set(regions):
                    return text(cluster.get("id"))
        return text(clusters[0].get("id")) if clusters else ""

    def _items(self, probe: AccountProbe, key: str) -> list[Mapping[str, object]]:
        answer = self.answers.get(probe)
        return [] if answer is None or not answer.is_success else objects(mapping(answer.content).get(key))

    async def _get(
        self,
        probe: AccountProbe,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        service: Service = Service.INSTANCES,
    ) -> ProviderAnswer:
        answer = await self._calls.get(path, query, service=service)
        self.answers[probe] = answer
        return answer


def _page(number_: int, size: int) -> dict[str, str]:
    return {"pageNum": str(number_), "pageSize": str(size)}
