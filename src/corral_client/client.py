"""The client for programs with an event loop."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from corral_client.budgets import AsyncBudgets
from corral_client.costs import AsyncCosts
from corral_client.events import AsyncEvents
from corral_client.instances import AsyncInstances
from corral_client.login import target
from corral_client.models.costs import Account
from corral_client.models.machines import Utilization, Volume, VolumeList
from corral_client.models.records import Identity, OrphanReport
from corral_client.models.resources import Health
from corral_client.records import AsyncAudit, AsyncDeliveries
from corral_client.resources import AsyncJobs, AsyncOperations, AsyncProducts, AsyncTemplates
from corral_client.transport import Transport

TIMEOUT_SECONDS: Final = 30.0
MAX_RETRIES: Final = 3


class AsyncClient:
    """
    A running Corral, for programs with an event loop.

    *base_url* is where it is; without one, as the environment variable `CORRAL_URL` says, else as `corral login` stored
    it, else port 3000 of this machine. *api_key* is sent with every request; without one, that of the environment
    variable `CORRAL_API_KEY`, else the stored one if it belongs to this address; an empty one sends none.
    *timeout* is in seconds for each attempt of a request; *max_retries* is how often one is repeated when nothing came
    back, or when the answer says that it may succeed later.

        >>> async with AsyncClient(url) as corral:
        ...     job = await corral.instances.create(name="short", product_name="RTX 4090 24GB", template_id="107672")
        ...     ready = await job.wait_until_ready(on_progress=lambda p: None)
        ...     job = await job.delete()
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
        found = target(base_url, api_key)
        self._transport = Transport(found.url, api_key=found.api_key, timeout=timeout, max_retries=max_retries)
        self.events = AsyncEvents(self._transport)
        self.instances = AsyncInstances(self._transport, self.events)
        self.products = AsyncProducts(self._transport)
        self.templates = AsyncTemplates(self._transport)
        self.operations = AsyncOperations(self._transport)
        self.jobs = AsyncJobs(self._transport)
        self.deliveries = AsyncDeliveries(self._transport)
        self.audit = AsyncAudit(self._transport)
        self.costs = AsyncCosts(self._transport)
        self.budgets = AsyncBudgets(self._transport)

    async def whoami(self) -> Identity:
        """Who the service takes the caller for; raises Unauthorised when it needs a key and this is none."""
        return await self._transport.get(Identity, "/api/whoami")

    async def orphans(self) -> OrphanReport:
        """Machines that carry the installation's mark without a record, and instances that make no progress."""
        return await self._transport.get(OrphanReport, "/api/orphans")

    async def volumes(self) -> list[Volume]:
        """Network storage of the account, each with the region whose machines can mount it."""
        return (await self._transport.get(VolumeList, "/api/volumes")).volumes

    async def utilization(self) -> Utilization:
        """How busy each running machine is: the newest values that are known."""
        return await self._transport.get(Utilization, "/api/utilization")

    async def account(self) -> Account:
        """The balance of the provider account, and when it is used up at the present cost."""
        return await self._transport.get(Account, "/api/account")

    async def health(self) -> Health:
        """How every part of the service is, also when one is down."""
        return await self._transport.get(Health, "/health", also=(503,))

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
