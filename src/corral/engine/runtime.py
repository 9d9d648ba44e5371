"""What an engine runs on; `app/runtime.py` opens it for a service."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from corral.base.clock import Clock
from corral.base.metrics import Metrics
from corral.base.settings.settings import Settings
from corral.cloud.guarded import Reachability
from corral.cloud.port import Cloud
from corral.cloud.simulated import SimulatedProvider
from corral.domain.health.checks import HealthCheckSpec
from corral.domain.lifecycle.policy import Policy
from corral.domain.requests.create import CreateDefaults
from corral.domain.requests.lease import LeaseDefaults
from corral.engine.ids import random_id
from corral.health.probe import Prober
from corral.outbound.provider_logs import ProviderLogs
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.webhooks.deliver import Sender
from corral.webhooks.guard import AddressGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What an engine runs on. The service, a command and a test differ in these parts and in nothing else."""

    settings: Settings
    policy: Policy
    clock: Clock
    metrics: Metrics
    target: DatabaseTarget
    database: Database
    installation: str
    cloud: Cloud
    reachability: Callable[[], Reachability]
    prober: Prober
    logs: ProviderLogs
    sender: Sender
    secret_key: SecretKeyFile
    guard: AddressGuard
    """Which addresses webhooks may be sent to."""
    last_listing_at: Callable[[], datetime | None]
    """Returns when the provider was last listed, by any process."""
    application_name: str = "corral"
    """The name of this process's database sessions."""
    place: str = ""
    """Where the files of an embedded database are; see `CreateGate`."""
    simulated: SimulatedProvider | None = None
    """The simulator that this process started, if there is no provider key."""
    jitter: Callable[[], float] = random.random
    new_id: Callable[[], str] = random_id

    @property
    def create_defaults(self) -> CreateDefaults:
        """The settings that apply where a request leaves a field out."""
        chosen, checks = self.settings.instances, self.settings.health_checks
        health = HealthCheckSpec(
            timeout_ms=checks.timeout_ms,
            retry_attempts=checks.retry_attempts,
            retry_delay_ms=checks.retry_delay_ms,
            max_wait_ms=checks.max_wait_ms,
        )
        limits = self.settings.leases
        lease = LeaseDefaults(max_duration=limits.default_ttl, idle_after=limits.default_idle, max_ttl=limits.max_ttl)
        return CreateDefaults(region=chosen.default_region, regions=chosen.regions, health=health, lease=lease)
