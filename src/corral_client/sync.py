"""The client for programs without an event loop: the same surface, each call waiting for its answer."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Self, Unpack

from corral_client.client import DEFAULT_URL, MAX_RETRIES, TIMEOUT_SECONDS, AsyncClient
from corral_client.events import PATIENCE_SECONDS, AsyncEvents
from corral_client.instances import WAIT_SECONDS, AsyncInstances, OnProgress
from corral_client.looping import LoopThread
from corral_client.models import (
    Action,
    BillingMode,
    Created,
    Event,
    Health,
    Instance,
    Job,
    JobStats,
    ListedTemplate,
    Operation,
    Order,
    Plan,
    Product,
    Progress,
    Template,
)
from corral_client.resources import AsyncJobs, AsyncOperations, AsyncProducts, AsyncTemplates
from corral_client.watching import Aim


class Instances:
    """`client.instances`; see `AsyncInstances`."""

    def __init__(self, inner: AsyncInstances, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def create(self, *, idempotency_key: str | None = None, **order: Unpack[Order]) -> InstanceHandle:
        """
        Order an instance; returns as soon as the wish is recorded, long before the machine is ready.

        job = client.instances.create(name="train", product_name="RTX 4090 24GB", template_id="107672")
        ready = job.wait_until_ready()
        """
        made = self._loop.run(self._inner.create(idempotency_key=idempotency_key, **order))
        return InstanceHandle(self, made.id, made.created)

    def plan(self, **order: Unpack[Order]) -> Plan:
        """What `create` would try, in order, and why the rest would not do. Nothing is made."""
        return self._loop.run(self._inner.plan(**order))

    def get(self, named: str) -> Instance:
        """One instance as it is now; raises NotFound, or Ambiguous when several live ones have that name."""
        return self._loop.run(self._inner.get(named))

    def list(
        self, *, status: str | None = None, name: str | None = None, region: str | None = None, page_size: int = 100
    ) -> Generator[Instance]:
        """All instances that match, newest first, read page by page as they are consumed."""
        return self._loop.iterate(self._inner.list(status=status, name=name, region=region, page_size=page_size))

    def delete(self, named: str, *, idempotency_key: str | None = None) -> Action:
        """Have an instance deleted; it is `deleting`, and asked for again, until the provider says it is gone."""
        return self._loop.run(self._inner.delete(named, idempotency_key=idempotency_key))

    def operations(self, named: str) -> Sequence[Operation]:
        """What was asked of an instance, newest first."""
        return self._loop.run(self._inner.operations(named))

    def handle(self, instance_id: str) -> InstanceHandle:
        """A handle of an instance whose id is known; nothing is asked."""
        return InstanceHandle(self, instance_id, None)

    def watch(self, named: str, *, timeout: float | None = WAIT_SECONDS, aim: Aim = Aim.READY) -> Generator[Progress]:
        """How far an instance is: at once, then with every change, until it is ready (or gone, as *aim* says)."""
        return self._loop.iterate(self._inner.watch(named, timeout=timeout, aim=aim))

    def wait_until_ready(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """
        The instance, once it is ready; *on_progress* is called, on this thread, with every change on the way.

        Raises InstanceFailed when it will not become ready, WaitTimeout when it did not in *timeout* seconds. Either
        way, and when the wait is interrupted, the instance is left alone.
        """
        return self._wait(named, Aim.READY, timeout, on_progress)

    def wait_until_gone(
        self, named: str, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """The instance, once the provider says that it is gone, and nothing is billed any more."""
        return self._wait(named, Aim.GONE, timeout, on_progress)

    def _wait(self, named: str, aim: Aim, timeout: float | None, on_progress: OnProgress | None) -> Instance:
        last: Progress | None = None
        with contextlib.closing(self.watch(named, timeout=timeout, aim=aim)) as watching:
            for last in watching:
                if on_progress is not None:
                    on_progress(last)
        assert last is not None, "a watch yields at least once"  # noqa: S101
        return last.instance


class InstanceHandle:
    """One instance that was ordered; `created` is the receipt, None when the handle was made from an id."""

    def __init__(self, instances: Instances, instance_id: str, created: Created | None) -> None:
        self._instances = instances
        self.id = instance_id
        self.created = created

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def get(self) -> Instance:
        """The instance as it is now."""
        return self._instances.get(self.id)

    def wait_until_ready(
        self, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """As `client.instances.wait_until_ready`."""
        return self._instances.wait_until_ready(self.id, timeout=timeout, on_progress=on_progress)

    def wait_until_gone(
        self, *, timeout: float | None = WAIT_SECONDS, on_progress: OnProgress | None = None
    ) -> Instance:
        """As `client.instances.wait_until_gone`."""
        return self._instances.wait_until_gone(self.id, timeout=timeout, on_progress=on_progress)

    def delete(self) -> Action:
        """As `client.instances.delete`."""
        return self._instances.delete(self.id)


class Events:
    """`client.events`; see `AsyncEvents`."""

    def __init__(self, inner: AsyncEvents, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def list(self, *, after: int = 0, instance_id: str | None = None) -> Generator[Event]:
        """All events after number *after*, oldest first, up to the newest there is."""
        return self._loop.iterate(self._inner.list(after=after, instance_id=instance_id))

    def latest(self, count: int = 100, *, after: int = 0, instance_id: str | None = None) -> Sequence[Event]:
        """The newest *count* events (at most 500), oldest of them first."""
        return self._loop.run(self._inner.latest(count, after=after, instance_id=instance_id))

    def follow(
        self, *, after: int | None = None, instance_id: str | None = None, patience: float = PATIENCE_SECONDS
    ) -> Generator[Event]:
        """
        Each event as it happens, without end; a lost connection is resumed after the last event that was yielded.

        for event in client.events.follow(after=seen):
            remember(event.seq)
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
        """Products whose name contains *name*, cheapest first."""
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
        """What a create would choose now: the first candidate. Raises NotFound when nothing can be had."""
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
        """Templates to choose from: the account's own first, then the provider's official ones."""
        return self._loop.run(self._inner.list())

    def get(self, template_id: str | int) -> Template:
        """One template of the provider."""
        return self._loop.run(self._inner.get(template_id))


class Operations:
    """`client.operations`; see `AsyncOperations`."""

    def __init__(self, inner: AsyncOperations, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def get(self, operation_id: str) -> Operation:
        """What was asked, and which steps were reached when."""
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
        """All background jobs that match, newest first, read page by page as they are consumed."""
        return self._loop.iterate(
            self._inner.list(type=type, status=status, priority=priority, instance_id=instance_id, page_size=page_size)
        )

    def get(self, job_id: str) -> Job:
        """One job; finished ones are forgotten after a day."""
        return self._loop.run(self._inner.get(job_id))

    def stats(self) -> JobStats:
        """The queue in numbers."""
        return self._loop.run(self._inner.stats())


class Client:
    """
    A running Corral, for programs without an event loop. See `AsyncClient` for what the arguments mean.

    with Client() as client:
        job = client.instances.create(name="train", product_name="RTX 4090 24GB", template_id="107672")
        ready = job.wait_until_ready(on_progress=lambda p: print(p.instance.status))
        print(ready.connection_details.ssh)
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
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
        # Also closes a client that was only dropped, or is left when the program ends.
        self._end = weakref.finalize(self, _end, inner, loop)

    def health(self) -> Health:
        """How every part of the service is, also when one is down."""
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
