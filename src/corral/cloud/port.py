"""
The provider as the rest of the program calls it. `novita/client.py` is the one implementation.

Every call may raise a CloudError, and its class says what may be done next:
CloudTransientError (certainly did not happen), CloudRefusedError (never will), CloudShortageError (not here, not now),
CloudUnknownError (a change that may have happened: look it up before sending another).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from corral.domain.container import VolumeMount
from corral.domain.costs.bill import Balance, BillCategory, BillCycle, BillRows
from corral.domain.machine.access import MachineAccess
from corral.domain.machine.utilization import Period, Utilization
from corral.domain.observation.sighting import ProviderInstance
from corral.domain.placement.catalog import (
    BillingMode,
    Cluster,
    EnvironmentVariable,
    Product,
    Template,
    TemplateChannel,
    TemplateSummary,
    Volume,
)

BeforeSend = Callable[[], Awaitable[None]]
OnPage = Callable[[Sequence[ProviderInstance]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Login of an image registry; exists only inside the create call and is never shown."""

    username: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCreate:
    """The content of one create call."""

    name: str
    product_id: str
    cluster_id: str
    gpu_num: int
    rootfs_gb: int
    billing_mode: BillingMode
    template: Template
    """The container, with what the request replaces of the template."""
    volumes: tuple[VolumeMount, ...] = ()
    credentials: Credentials | None = None
    """Sent instead of the id of the registry login when the provider refused that."""
    secrets: tuple[EnvironmentVariable, ...] = ()
    """Variables beside those of the container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All instances of the account, as far as they could be read."""

    instances: tuple[ProviderInstance, ...]
    complete: bool
    """Whether every page was read; only then does an instance missing here mean anything."""
    pages: int


class Cloud(Protocol):
    """One provider account."""

    async def products(self, *, cluster_id: str | None, billing_mode: BillingMode) -> Sequence[Product]:
        """Products for sale, with their stock in *cluster_id* when it is given."""
        ...

    async def clusters(self) -> Sequence[Cluster]:
        """Every cluster."""
        ...

    async def template(self, template_id: str) -> Template:
        """One template; raises CloudRefusedError TEMPLATE_NOT_FOUND or INVALID_TEMPLATE."""
        ...

    async def templates(self, channel: TemplateChannel) -> Sequence[TemplateSummary]:
        """Templates for instances that *channel* offers, as far as they could be read."""
        ...

    async def registry_credentials(self, auth_id: str) -> Credentials | None:
        """The login behind *auth_id*, never cached; None when there is no such auth."""
        ...

    async def volumes(self) -> Sequence[Volume]:
        """Network volumes of the account, as far as they could be read."""
        ...

    async def create(self, order: ProviderCreate, *, before_send: BeforeSend | None = None) -> str:
        """
        Ask for an instance and return the provider's id of it. Never repeated once it may have happened.

        *before_send* is called right before the request is sent, after every wait; if it raises, nothing is sent.
        """
        ...

    async def instance(
        self, provider_id: str, *, awaited: bool = False, unseen: bool = False
    ) -> ProviderInstance | None:
        """
        One instance with its connection details; None when the provider says there is none.

        *awaited*: the machine runs and waits for this lookup to become usable, so it goes before other reads. *unseen*:
        no page of the list showed it, so this lookup has its turn with the pages.
        """
        ...

    async def machine_access(self, provider_id: str) -> MachineAccess | None:
        """The logins and log addresses of one instance, never cached; None when the provider says there is none."""
        ...

    async def utilization(self, provider_id: str, within: Period) -> Utilization | None:
        """How busy one instance was; None when the provider says there is none. Has a share of the rate limit."""
        ...

    async def instances(self, on_page: OnPage | None = None) -> Listing:
        """Every instance of the account, over all pages; calls *on_page* with each page as it arrives."""
        ...

    async def named(self, name: str) -> Listing:
        """The instances called *name*, by one call; complete unless the provider had more that fit."""
        ...

    async def named_like(self, start: str) -> Listing:
        """The same for names that begin with *start*; an empty one gives the first page of the account."""
        ...

    async def balance(self) -> Balance:
        """The money of the account, never cached; a failure has no effect on other calls."""
        ...

    async def time(self) -> datetime | None:
        """
        The time by the provider's clock; when it last answered, if it does not now. None: it does not say.

        Never raises because of the provider.
        """
        ...

    async def bill_rows(
        self, category: BillCategory, *, since: datetime, until: datetime, cycle: BillCycle = BillCycle.HOUR
    ) -> BillRows:
        """
        The rows of the bill that begin in [since, until), which is at most 31 days; a failure affects no other call.

        Bills are late, and calls for them in quick succession are refused (CircuitOpenError says for how long).
        """
        ...

    async def start(self, provider_id: str, *, before_send: BeforeSend | None = None) -> None:
        """Ask for a start; *before_send* as for `create`."""
        ...

    async def stop(self, provider_id: str, *, before_send: BeforeSend | None = None) -> None:
        """Ask for a stop; *before_send* as for `create`."""
        ...

    async def restart(self, provider_id: str, *, before_send: BeforeSend | None = None) -> None:
        """Ask for a restart; *before_send* as for `create`."""
        ...

    async def delete(self, provider_id: str) -> bool:
        """Ask for deletion; returns False if the provider says that there is no such instance."""
        ...
