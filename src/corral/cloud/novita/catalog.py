"""Reads what the provider sells and what the account has to create instances with: templates, logins, volumes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from corral.cloud.exchange import MEBIBYTE, Answer, Call, Exchange, FaultError
from corral.cloud.novita import templates, translate, values, wire
from corral.cloud.novita.faults import error_for
from corral.cloud.novita.paging import Page, read_all
from corral.cloud.port import Credentials
from corral.domain.errors import CloudRefusedError
from corral.domain.placement.catalog import (
    BillingMode,
    Cluster,
    Product,
    Template,
    TemplateChannel,
    TemplateSummary,
    Volume,
)

MOST_CATALOG_BYTES: Final = 8 * MEBIBYTE
"""A few hundred products of a kilobyte each, ten times over."""


class NovitaCatalog:
    """The part of an account at novita.ai that is read before an instance is created."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._first_templates_page: int | None = None
        self._first_volumes_page: int | None = None

    async def products(self, *, cluster_id: str | None, billing_mode: BillingMode) -> Sequence[Product]:
        """Products for sale, with their stock in *cluster_id* when it is given."""
        wanted = {"clusterId": cluster_id, "billingMethod": billing_mode.value}
        call = read_call(
            "products",
            "/v1/products",
            {key: value for key, value in wanted.items() if value},
            missing_code="PRODUCT_NOT_FOUND",
            most_bytes=MOST_CATALOG_BYTES,
        )
        answer = await self._ask(call, wire.Products)
        return tuple(found for seen in answer.data or [] if (found := translate.product(seen)) is not None)

    async def clusters(self) -> Sequence[Cluster]:
        """Every cluster."""
        call = read_call("clusters", "/v1/clusters", {}, most_bytes=MOST_CATALOG_BYTES)
        answer = await self._ask(call, wire.Clusters)
        return tuple(found for seen in answer.data or [] if (found := translate.cluster(seen)) is not None)

    async def template(self, template_id: str) -> Template:
        """One template; raises CloudRefusedError TEMPLATE_NOT_FOUND or INVALID_TEMPLATE."""
        call = read_call(
            "template",
            "/v1/template",
            {"templateId": template_id},
            about=template_id,
            missing_code="TEMPLATE_NOT_FOUND",
        )
        answer = await self._ask(call, wire.TemplateAnswer)
        if answer.template is None:
            raise CloudRefusedError(f"the provider knows no template {template_id}", code="TEMPLATE_NOT_FOUND")
        return templates.template(answer.template, template_id)

    async def templates(self, channel: TemplateChannel) -> Sequence[TemplateSummary]:
        """Templates for instances that *channel* offers, as far as they could be read."""
        reading = await read_all(partial(self._templates_page, channel), first_number=self._first_templates_page)
        self._first_templates_page = reading.first_number
        return tuple(found for found in reading.items if found is not None)

    async def registry_credentials(self, auth_id: str) -> Credentials | None:
        """The login behind *auth_id*, never cached; None when there is no such auth."""
        call = read_call("registry_auths", "/v1/repository/auths", {}, most_bytes=MOST_CATALOG_BYTES)
        answer = await self._ask(call, wire.RegistryAuths)
        for auth in answer.data or []:
            if values.text(auth.id) == auth_id:
                return Credentials(username=values.text(auth.username), password=str(auth.password or ""))
        return None

    async def volumes(self) -> Sequence[Volume]:
        """Network volumes of the account, as far as they could be read."""
        reading = await read_all(self._volumes_page, first_number=self._first_volumes_page)
        self._first_volumes_page = reading.first_number
        return reading.items

    async def _templates_page(self, channel: TemplateChannel, number: int, size: int) -> Page[TemplateSummary | None]:
        query = {
            "channel": channel.value,
            "isMyCommunity": "true" if channel is TemplateChannel.PRIVATE else "false",
            "pageNum": str(number),
            "pageSize": str(size),
        }
        answer = await self._ask(
            read_call("templates", "/v1/templates", query, most_bytes=MOST_CATALOG_BYTES), wire.Templates
        )
        items = tuple((values.text(seen.id), templates.listed(seen, channel)) for seen in answer.template or [])
        return Page(items=items, total=values.total(answer.total))

    async def _volumes_page(self, number: int, size: int) -> Page[Volume]:
        query = {"pageNo": str(number), "pageSize": str(size)}
        call = read_call("volumes", "/v1/networkstorages/list", query, most_bytes=MOST_CATALOG_BYTES)
        answer = await self._ask(call, wire.Volumes)
        found = (translate.volume(seen) for seen in answer.data or [])
        items = tuple((volume.id, volume) for volume in found if volume is not None)
        return Page(items=items, total=values.total(answer.total))

    async def _ask(self, call: Call, answer: type[Answer]) -> Answer:
        try:
            return await self._exchange.ask(call, answer)
        except FaultError as fault:
            raise error_for(fault, call) from fault


def read_call(
    endpoint: str,
    path: str,
    query: dict[str, str],
    *,
    about: str = "",
    missing_code: str = "NOVITA_API_ERROR",
    most_bytes: int = MEBIBYTE,
    max_wait_seconds: float = 30.0,
    is_page: bool = False,
) -> Call:
    """A call that reads."""
    return Call(
        endpoint=endpoint,
        method="GET",
        path=path,
        query=query,
        about=about,
        missing_code=missing_code,
        most_bytes=most_bytes,
        max_wait_seconds=max_wait_seconds,
        is_page=is_page,
    )
