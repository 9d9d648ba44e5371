"""What an engine runs on: settings, database, provider account, and the clients for health checks and webhooks."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from urllib.parse import urlsplit

from corral.base.clock import Clock
from corral.base.metrics import Metrics
from corral.base.settings.settings import Settings
from corral.cloud.novita.account import opened_account
from corral.cloud.simulated import opened_provider
from corral.domain.lifecycle.policy import Policy
from corral.engine.runtime import Runtime
from corral.health.probe import Prober
from corral.outbound.addresses import read_address
from corral.outbound.policy import AddressPolicy
from corral.outbound.provider_hosts import ProviderHosts
from corral.outbound.provider_logs import ProviderLogs
from corral.store.installation import installation_id
from corral.store.installation.rate_limit import DatabaseRateLimitStore
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.webhooks.deliver import Sender
from corral.webhooks.guard import AddressGuard
from corral.webhooks.sign import signing_key


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    clock: Clock,
    metrics: Metrics,
    target: DatabaseTarget,
    database: Database,
    application_name: str,
    last_listing_at: Callable[[], datetime | None] = lambda: None,
    place: str = "",
) -> AsyncGenerator[Runtime]:
    """The runtime over *database* and the provider that *settings* name, for as long as this is open."""
    async with AsyncExitStack() as stack:
        async with database.connection() as connection:
            installation = await installation_id.load(connection)
        simulated, base_url, api_key = await stack.enter_async_context(opened_provider(settings, clock))
        cloud = await stack.enter_async_context(
            opened_account(
                settings.provider,
                base_url=base_url,
                api_key=api_key,
                store=DatabaseRateLimitStore(database),
                clock=clock,
                metrics=metrics,
                jitter=random.random,
            )
        )
        prober = await stack.enter_async_context(Prober.open(clock=clock, policy=probe_policy(settings, base_url)))
        logs = await stack.enter_async_context(ProviderLogs.open(ProviderHosts(base_url)))
        guard = AddressGuard(clock=clock, allow_private=settings.webhooks.allow_private)
        secret = settings.webhooks.secret
        sender = await stack.enter_async_context(
            Sender.open(
                clock=clock,
                guard=guard,
                timeout_ms=settings.webhooks.timeout_ms,
                key=None if secret is None else signing_key(secret.get_secret_value()),
            )
        )
        yield Runtime(
            settings=settings,
            policy=Policy(),
            clock=clock,
            metrics=metrics,
            target=target,
            database=database,
            installation=installation,
            cloud=cloud,
            reachability=cloud.snapshot,
            prober=prober,
            logs=logs,
            sender=sender,
            secret_key=SecretKeyFile.of(settings.store),
            guard=guard,
            last_listing_at=last_listing_at,
            application_name=application_name,
            place=place,
            simulated=simulated,
        )


def probe_policy(settings: Settings, provider_url: str) -> AddressPolicy:
    """Which addresses health checks may connect to: those of this machine only if the provider is there as well."""
    host = urlsplit(provider_url).hostname or ""
    address = read_address(host)
    is_local = host == "localhost" or (address is not None and address.is_loopback)
    return AddressPolicy(allow_private=settings.health_checks.allow_private, allow_loopback=is_local)
