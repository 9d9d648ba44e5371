"""The client for programs without an event loop: the same surface, each call waiting for its answer."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Self

from corral_client.client import MAX_RETRIES, TIMEOUT_SECONDS, AsyncClient
from corral_client.events import PATIENCE_SECONDS, AsyncEvents
from corral_client.models.costs import Account
from corral_client.models.instances import Event
from corral_client.models.machines import Utilization, Volume
from corral_client.models.records import Identity, OrphanReport
from corral_client.models.resources import Health
from corral_client.sync.budgets import Budgets
from corral_client.sync.costs import Costs
from corral_client.sync.instances import Instances
from corral_client.sync.looping import LoopThread
from corral_client.sync.records import Audit, Deliveries
from corral_client.sync.resources import Jobs, Operations, Products, Templates


class Events:
    """`client.events`; see `AsyncEvents`."""

    def __init__(self, inner: AsyncEvents, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def list(self, *, after: int = 0, instance_id: str | None = None) -> Generator[Event]:
        """
        All events after number *after*, oldest first, up to the newest there is.

            >>> [event.event for event in client.events.list(after=0)][0]
            'instance.created'
        """
        return self._loop.iterate(self._inner.list(after=after, instance_id=instance_id))

    def latest(self, count: int = 100, *, after: int = 0, instance_id: str | None = None) -> Sequence[Event]:
        """
        The newest *count* events (at most 500), oldest of them first.

            >>> len(client.events.latest(3))
            3
        """
        return self._loop.run(self._inner.latest(count, after=after, instance_id=instance_id))

    def follow(
        self, *, after: int | None = None, instance_id: str | None = None, patience: float = PATIENCE_SECONDS
    ) -> Generator[Event]:
        """
        Each event as it happens, without end; a lost connection is resumed after the last event that was yielded.

            >>> seen = 0  # from your own records
            >>> for event in client.events.follow(after=seen):
            ...     seen = event.seq
            ...     if event.event == "instance.ready":
            ...         break
        """
        return self._loop.iterate(self._inner.follow(after=after, instance_id=instance_id, patience=patience))


class Client:
    """
    A running Corral, for programs without an event loop. See `AsyncClient` for what the arguments mean.

        >>> with Client(url) as corral:
        ...     job = corral.instances.create(name="short", product_name="RTX 4090 24GB", template_id="107672")
        ...     ready = job.wait_until_ready(on_progress=lambda p: None)
        ...     job = job.delete()
        >>> ready.connection_details.ssh.startswith("ssh ")
        True
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        inner = AsyncClient(base_url, api_key, timeout=timeout, max_retries=max_retries)
        loop = LoopThread()
        self._inner = inner
        self._loop = loop
        self.events = Events(inner.events, loop)
        self.instances = Instances(inner.instances, loop)
        self.products = Products(inner.products, loop)
        self.templates = Templates(inner.templates, loop)
        self.operations = Operations(inner.operations, loop)
        self.jobs = Jobs(inner.jobs, loop)
        self.deliveries = Deliveries(inner.deliveries, loop)
        self.audit = Audit(inner.audit, loop)
        self.costs = Costs(inner.costs, loop)
        self.budgets = Budgets(inner.budgets, loop)
        # Also closes a client that was only dropped, or is left when the program ends.
        self._end = weakref.finalize(self, _end, inner, loop)

    def whoami(self) -> Identity:
        """
        Who the service takes the caller for; raises Unauthorised when it needs a key and this is none.

            >>> client.whoami().role
            'admin'
        """
        return self._loop.run(self._inner.whoami())

    def orphans(self) -> OrphanReport:
        """
        Machines that carry the installation's mark without a record, and instances that make no progress.

            >>> client.orphans().orphans
            []
        """
        return self._loop.run(self._inner.orphans())

    def volumes(self) -> list[Volume]:
        """
        Network storage of the account, each with the region whose machines can mount it.

            >>> client.volumes()[0].size_gb > 0
            True
        """
        return self._loop.run(self._inner.volumes())

    def utilization(self) -> Utilization:
        """
        How busy each running machine is: the newest values that are known.

            >>> "train" in [machine.name for machine in client.utilization().instances]
            True
        """
        return self._loop.run(self._inner.utilization())

    def account(self) -> Account:
        """
        The balance of the provider account, and when it is used up at the present cost.

            >>> client.account().balance.available_usd > 0
            True
        """
        return self._loop.run(self._inner.account())

    def health(self) -> Health:
        """
        How every part of the service is, also when one is down.

            >>> client.health().is_healthy
            True
        """
        return self._loop.run(self._inner.health())

    def close(self) -> None:
        """Close every connection; the client cannot be used any more."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _end(inner: AsyncClient, loop: LoopThread) -> None:
    loop.stop(inner.close())
