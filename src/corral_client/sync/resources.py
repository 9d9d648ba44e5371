"""Products, templates, operations and jobs, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Generator

from corral_client.models.instances import Operation
from corral_client.models.orders import BillingMode
from corral_client.models.plans import Plan
from corral_client.models.resources import Job, JobStats, ListedTemplate, Processing, Product, Template
from corral_client.resources import AsyncJobs, AsyncOperations, AsyncProducts, AsyncTemplates
from corral_client.sync.looping import LoopThread


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
