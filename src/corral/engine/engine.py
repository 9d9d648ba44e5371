"""The engine of one process as the routes, the jobs and the tests see it; `app/engine.py` builds it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from corral.base.clock import Clock
from corral.base.metrics import Metrics
from corral.base.settings import Settings
from corral.cloud.guarded import Reachability
from corral.cloud.port import Cloud
from corral.cloud.simulated import SimulatedProvider
from corral.domain.lifecycle.policy import Policy
from corral.engine.auth.api_keys import ApiKeys
from corral.engine.auth.audit_log import AuditLog
from corral.engine.commands.adopt import AdoptInstance
from corral.engine.commands.change import ChangeInstance
from corral.engine.commands.create import CreateInstance
from corral.engine.events.log import EventLog
from corral.engine.events.publisher import EventPublisher
from corral.engine.events.webhook_sender import WebhookSender
from corral.engine.ids import random_id
from corral.engine.maintenance.orphans import OrphanSweep
from corral.engine.maintenance.stuck import StuckSweep
from corral.engine.observe.observer import Observer
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.fleet import Fleet
from corral.engine.queries.instances import InstanceDescriber, InstanceQueries
from corral.engine.queries.merged_listing import MergedListing
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.reconciler import Reconciler
from corral.health.probe import Prober
from corral.jobs.queue import JobQueue
from corral.jobs.registry import Registry
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
    sender: Sender
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine of one process; every job type is registered."""

    runtime: Runtime
    registry: Registry
    queue: JobQueue
    caches: CacheInvalidation
    event_publisher: EventPublisher
    event_log: EventLog
    keys: ApiKeys
    audit: AuditLog
    describer: InstanceDescriber
    catalog: Catalog
    queries: InstanceQueries
    listing: MergedListing
    fleet: Fleet
    create: CreateInstance
    change: ChangeInstance
    adopt: AdoptInstance
    gate: CreateGate
    """`start` it before the first create."""
    reconciler: Reconciler
    observer: Observer
    webhook_sender: WebhookSender
    orphan_sweep: OrphanSweep
    stuck_sweep: StuckSweep
