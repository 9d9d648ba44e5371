"""
The create call: its content, the last check whether it is still wanted and not too old, and sending it in time.

Also the last check of a start, restart or stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from corral.base.clock import Clock
from corral.cloud.port import BeforeSend, Cloud, Credentials, ProviderCreate
from corral.domain.errors import CloudTransientError, CloudUnknownError, StaleError
from corral.domain.instance import CreateRequest, Instance
from corral.domain.observation.provider_names import ProviderName, provider_name
from corral.domain.placement.catalog import EnvironmentVariable, Template
from corral.domain.placement.rank import Candidate
from corral.store.session.database import Database
from corral.store.tables import instances


class SendCheck:
    """
    Raises unless a create call may still be sent. Make it before the intent of the call is written.

    A process can be paused (SIGSTOP, a suspended host) at any point, and other workers give its call up meanwhile. The
    monotonic clock covers a paused process. The service's clock also covers a suspended host, on which the monotonic
    clock stops, and the machine's wall clock a paused virtual machine if its clock was set afterwards.
    """

    def __init__(self, clock: Clock, limit: timedelta, is_unchanged: Callable[[], Awaitable[bool]]) -> None:
        self._clock = clock
        self.limit = limit
        self._is_unchanged = is_unchanged
        self._deadline = clock.monotonic() + limit.total_seconds()
        self._latest = clock.now() + limit
        self._latest_by_wall = clock.wall() + limit
        self.passed = False
        """Whether the call may have been sent."""

    @property
    def seconds_left(self) -> float:
        """How long the call may still take, waiting included."""
        left = min(self._latest - self._clock.now(), self._latest_by_wall - self._clock.wall())
        return min(self._deadline - self._clock.monotonic(), left.total_seconds())

    async def __call__(self) -> None:
        """Raise StaleError if the record changed since the intent, CloudTransientError if the time is over."""
        if not await self._is_unchanged():
            raise StaleError("the instance was changed while its create call waited to be sent")
        # The time is checked last: the process may have been paused while the database was asked.
        if self.seconds_left <= 0:
            raise CloudTransientError(
                f"the create call was not sent within {self.limit.total_seconds():.0f} s of its record; it is repeated"
            )
        self.passed = True


def unless_changed(database: Database, asked: Instance) -> BeforeSend:
    """
    A check that raises StaleError unless *asked*, the record of a call about to be sent, is still the one to carry out.

    The call may wait, or its process be paused, for so long that another worker stops the machine and a user starts it.
    """

    async def check() -> None:
        async with database.connection() as connection:
            known = await instances.load(connection, asked.id)
        if known is None or known.operation_id != asked.operation_id or known.pending.sent_at != asked.pending.sent_at:
            raise StaleError("the instance was changed while its call waited to be sent")

    return check


def create_call(
    origin: ProviderName,
    order: CreateRequest,
    candidate: Candidate,
    template: Template,
    *,
    credentials: Credentials | None,
    secrets: tuple[EnvironmentVariable, ...] = (),
) -> ProviderCreate:
    """The create call for *candidate*, under the name of *origin*."""
    return ProviderCreate(
        name=provider_name(origin),
        product_id=candidate.offer.product_id,
        cluster_id=candidate.offer.cluster_id,
        gpu_num=order.gpu_num,
        rootfs_gb=order.rootfs_gb,
        billing_mode=candidate.offer.billing_mode,
        template=template,
        volumes=() if order.container is None else order.container.volumes,
        credentials=credentials,
        secrets=secrets,
    )


async def send(cloud: Cloud, order: ProviderCreate, check: SendCheck) -> str:
    """
    Send *order* within the time that *check* leaves, and return the provider's id of the machine.

    When that time is over, raises CloudUnknownError if the call may have been sent, else CloudTransientError.
    """
    left = check.seconds_left
    if left <= 0:
        raise CloudTransientError("the create call was not sent: recording its intent took too long")
    try:
        async with asyncio.timeout(left):
            return await cloud.create(order, before_send=check)
    except TimeoutError as error:
        limit = f"{check.limit.total_seconds():.0f} s"
        if check.passed:
            raise CloudUnknownError(f"the create call did not end within {limit}") from error
        raise CloudTransientError(f"the create call could not be sent within {limit}") from error
