"""The client for programs without an event loop: the same surface, each call waiting for its answer."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Self

from corral_client.client import MAX_RETRIES, TIMEOUT_SECONDS, AsyncClient
from corral_client.events import PATIENCE_SECONDS, AsyncEvents
from corral_client.looping import LoopThread
from corral_client.models import Event, Operation, Plan
from corral_client.orders import BillingMode
from corral_client.record_models import Identity, OrphanReport
from corral_client.resource_models import Health, Job, JobStats, ListedTemplate, Processing, Product, Template
from corral_client.resources import AsyncJobs, AsyncOperations, AsyncProducts, AsyncTemplates
from corral_client.sync_instances import Instances
from corral_client.sync_records import Audit, Deliveries


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


class Products:
    """`client.products`; see `AsyncProducts`."""

    def __init__(self, inner: AsyncProducts, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def list(
        self, *, name: str | None = None, region: str | None = None, billing_mode: BillingMode = "spot"
    ) -> list[Product]:
        """
        Products with *name* in their name, cheapest first.

            >>> client.products.list(name="4090", region="CN-HK-01")[0].spot_price_per_gpu
            0.18
        """
        return self._loop.run(self._inner.list(name=name, region=region, billing_mode=billing_mode))

    def optimal(
        self,
        name: str,
        *,
        region: str | None = None,
        billing_mode: BillingMode = "spot",
        spot_fallback: bool = False,
        max_price: float | None = None,
        gpu_num: int = 1,
    ) -> Plan:
        """
        What a create would choose now: the first candidate. Raises NotFound when no offer is available.

            >>> client.products.optimal("RTX 4090 24GB", gpu_num=2).candidates[0].price
            0.36
        """
        return self._loop.run(
            self._inner.optimal(
                name,
                region=region,
                billing_mode=billing_mode,
                spot_fallback=spot_fallback,
                max_price=max_price,
                gpu_num=gpu_num,
            )
        )


class Templates:
    """`client.templates`; see `AsyncTemplates`."""

    def __init__(self, inner: AsyncTemplates, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def list(self) -> list[ListedTemplate]:
        """
        Templates to choose from: the account's own first, then the provider's official ones.

            >>> "107672" in [template.id for template in client.templates.list()]
            True
        """
        return self._loop.run(self._inner.list())

    def get(self, template_id: str | int) -> Template:
        """
        One template of the provider.

            >>> [port.port for port in client.templates.get("107672").ports]
            [8888, 22]
        """
        return self._loop.run(self._inner.get(template_id))


class Operations:
    """`client.operations`; see `AsyncOperations`."""

    def __init__(self, inner: AsyncOperations, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def get(self, operation_id: str) -> Operation:
        """
        What was asked, and which steps were reached when.

            >>> asked = client.instances.get("train").operation
            >>> client.operations.get(asked.operation_id).status
            'completed'
        """
        return self._loop.run(self._inner.get(operation_id))


class Jobs:
    """`client.jobs`; see `AsyncJobs`."""

    def __init__(self, inner: AsyncJobs, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def list(
        self,
        *,
        type: str | None = None,  # noqa: A002  # the word of the API
        status: str | None = None,
        priority: str | None = None,
        instance_id: str | None = None,
        page_size: int = 100,
    ) -> Generator[Job]:
        """
        All background jobs that match, newest first, read page by page as they are consumed.

            >>> next(client.jobs.list(type="create_instance")).type
            'create_instance'
        """
        return self._loop.iterate(
            self._inner.list(type=type, status=status, priority=priority, instance_id=instance_id, page_size=page_size)
        )

    def get(self, job_id: str) -> Job:
        """
        One job; finished ones are forgotten after a day.

            >>> job = next(client.jobs.list(type="create_instance"))
            >>> client.jobs.get(job.id).priority
            'high'
        """
        return self._loop.run(self._inner.get(job_id))

    def stats(self) -> JobStats:
        """
        The queue in numbers.

            >>> client.jobs.stats().total_jobs > 0
            True
        """
        return self._loop.run(self._inner.stats())

    def pause(self) -> Processing:
        """
        Let no job begin until `resume`; creates, stops, deletes and webhooks wait, and machines are billed.

            >>> client.jobs.pause().paused
            True
            >>> client.jobs.resume().paused
            False
        """
        return self._loop.run(self._inner.pause())

    def resume(self) -> Processing:
        """
        Let jobs begin again.

            >>> client.jobs.resume().paused
            False
        """
        return self._loop.run(self._inner.resume())


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
