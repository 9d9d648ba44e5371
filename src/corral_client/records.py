"""Webhook deliveries and the audit log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from urllib.parse import quote

from corral_client.models.records import AuditLine, AuditPage, Delivery, DeliveryPage
from corral_client.transport import Transport


class AsyncDeliveries:
    """`client.deliveries`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, *, instance_id: str | None = None, status: str | None = None, page_size: int = 100
    ) -> AsyncGenerator[Delivery]:
        """All deliveries to webhooks that match, newest first, read page by page as they are consumed."""
        offset = 0
        while True:
            query = {"instanceId": instance_id, "status": status, "limit": page_size, "offset": offset}
            page = await self._transport.get(DeliveryPage, "/api/webhooks/deliveries", query)
            for delivery in page.deliveries:
                yield delivery
            offset += page_size
            if len(page.deliveries) < page_size:
                return

    async def redeliver(self, delivery_id: str) -> Delivery:
        """Send one again, whatever became of it: the same message, with the same `webhook-id`."""
        path = f"/api/webhooks/deliveries/{quote(delivery_id, safe='')}/redeliver"
        return await self._transport.act("POST", Delivery, path, key=None)


class AsyncAudit:
    """`client.audit`, for callers of the role admin."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, *, after: int = 0, instance_id: str | None = None, who: str | None = None, page_size: int = 100
    ) -> AsyncGenerator[AuditLine]:
        """All lines after number *after*, oldest first; *who* is the name or id of a key, or `local`."""
        while True:
            query = {"after": after, "instanceId": instance_id, "who": who, "limit": page_size}
            page = await self._transport.get(AuditPage, "/api/audit", query)
            for line in page.entries:
                yield line
            if len(page.entries) < page_size:
                return
            after = page.next_after

    async def latest(
        self, count: int = 100, *, instance_id: str | None = None, who: str | None = None
    ) -> Sequence[AuditLine]:
        """The newest *count* lines (at most 500), oldest of them first."""
        query = {"last": count, "instanceId": instance_id, "who": who}
        return (await self._transport.get(AuditPage, "/api/audit", query)).entries
