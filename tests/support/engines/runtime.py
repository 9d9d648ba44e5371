"""What a test's engine runs on: the product's own parts, on the test's database, clock and provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from corral.base.clock import Clock
from corral.base.metrics import Metrics
from corral.base.settings.configuration import load
from corral.base.settings.settings import Settings
from corral.cloud.breaker import BreakerState
from corral.cloud.guarded import Reachability
from corral.cloud.port import Cloud
from corral.domain.lifecycle.policy import Policy
from corral.engine.runtime import Runtime
from corral.health.probe import Prober
from corral.outbound.policy import AddressPolicy
from corral.outbound.provider_hosts import ProviderHosts
from corral.outbound.provider_logs import ProviderLogs
from corral.store.installation import installation_id
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.webhooks.deliver import Sender
from corral.webhooks.guard import AddressGuard

INSTALLATION = "0a1b2c"
_KEYS = TemporaryDirectory(prefix="corral-test-")
"""Of the key that the engines of one test process share; removed when it ends."""
_PROBES = AddressPolicy(allow_private=False, allow_loopback=True)
_NO_TARGET = DatabaseTarget(host="/nowhere", user="none", database="none")
"""For an engine without a leading observer: nothing else connects by the target."""


def settings_of(**environment: object) -> Settings:
    """The settings of a service with this *environment*; by default with two regions and no lookups by name."""
    chosen = {"CORRAL_REGIONS": "AS-SGP-02,CN-HK-01", "INSTANCE_STARTUP_ENABLE_NAME_LOOKUP": "false"}
    return load(chosen | {name: str(value).lower() for name, value in environment.items()}).settings


def reachable() -> Reachability:
    """A provider that was never asked and allows any number of calls."""
    return Reachability(
        breaker=BreakerState.CLOSED,
        calls_per_minute=10_000,
        last_answer_at=None,
        last_failure_at=None,
        last_failure=None,
    )


def unopened_sender(clock: Clock) -> Sender:
    """A sender for code that sends nothing."""
    guard = AddressGuard(clock=clock, allow_private=False)
    return Sender(session=cast("Any", None), clock=clock, guard=guard, timeout_seconds=5, key=None)


def idle_runtime(
    database: Database, cloud: Cloud, clock: Clock, *, settings: Settings | None = None, **parts: Any
) -> Runtime:
    """A runtime that checks no endpoint and sends no webhook; *parts* replace fields of it."""
    guard = AddressGuard(clock=clock, allow_private=False)
    unopened = cast("Any", None)
    given: dict[str, Any] = {
        "settings": settings or settings_of(),
        "policy": Policy(),
        "clock": clock,
        "target": _NO_TARGET,
        "database": database,
        "installation": INSTALLATION,
        "cloud": cloud,
        "reachability": reachable,
        "prober": Prober(session=unopened, clock=clock, policy=_PROBES, resolver=unopened),
        "logs": ProviderLogs(session=unopened, hosts=ProviderHosts("http://127.0.0.1")),
        "sender": unopened_sender(clock),
        "secret_key": SecretKeyFile(Path(_KEYS.name) / "secret.key"),
        "guard": guard,
        "last_listing_at": lambda: None,
        "jitter": lambda: 0.5,
    }
    return Runtime(**given | {"metrics": parts.get("metrics") or Metrics()} | parts)


@asynccontextmanager
async def open_test_runtime(
    database: Database, target: DatabaseTarget, cloud: Cloud, clock: Clock, *, policy: Policy
) -> AsyncGenerator[Runtime]:
    """A runtime that checks endpoints on loopback, under the mark of *database*, for as long as this is open."""
    async with database.connection() as connection:
        installation = await installation_id.load(connection)
    async with Prober.open(clock=clock, policy=_PROBES) as prober:
        yield idle_runtime(
            database, cloud, clock, target=target, installation=installation, prober=prober, policy=policy
        )
