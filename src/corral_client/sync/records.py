"""Webhook deliveries and the audit log, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from corral_client.models.records import AuditLine, Delivery
from corral_client.records import AsyncAudit, AsyncDeliveries
from corral_client.sync.looping import LoopThread


class Deliveries:
    """`client.deliveries`; see `AsyncDeliveries`."""

    def __init__(self, inner: AsyncDeliveries, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def list(
        self, *, instance_id: str | None = None, status: str | None = None, page_size: int = 100
    ) -> Generator[Delivery]:
        """
        All deliveries to webhooks that match, newest first, read page by page as they are consumed.

            >>> [(delivery.event, delivery.host) for delivery in client.deliveries.list(status="failed")]
            []
        """
        return self._loop.iterate(self._inner.list(instance_id=instance_id, status=status, page_size=page_size))

    def redeliver(self, delivery_id: str) -> Delivery:
        """
        Send one again, whatever became of it: the same message, with the same `webhook-id`.

            >>> failed = client.deliveries.list(status="failed")
            >>> [client.deliveries.redeliver(delivery.id).status for delivery in failed]
            []
        """
        return self._loop.run(self._inner.redeliver(delivery_id))


class Audit:
    """`client.audit`, for callers of the role admin; see `AsyncAudit`."""

    def __init__(self, inner: AsyncAudit, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def list(
        self, *, after: int = 0, instance_id: str | None = None, who: str | None = None, page_size: int = 100
    ) -> Generator[AuditLine]:
        """
        All lines after number *after*, oldest first; *who* is the name or id of a key, or `local`.

            >>> train = client.instances.get("train")
            >>> next(client.audit.list(instance_id=train.id)).status
            201
        """
        return self._loop.iterate(self._inner.list(after=after, instance_id=instance_id, who=who, page_size=page_size))

    def latest(
        self, count: int = 100, *, instance_id: str | None = None, who: str | None = None
    ) -> Sequence[AuditLine]:
        """
        The newest *count* lines (at most 500), oldest of them first.

            >>> client.audit.latest(1, who="local")[0].role
            'admin'
        """
        return self._loop.run(self._inner.latest(count, instance_id=instance_id, who=who))
