"""What every part of a process stands on, and those parts that need nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from corral.api.http.limits import Limits
from corral.api.http.process_health import ProcessHealth
from corral.app.role import Role
from corral.base import fd_limit
from corral.base.clock import Clock
from corral.base.settings import Settings
from corral.base.telemetry import Metrics
from corral.cache.metrics import CacheCollector
from corral.cache.registry import CacheRegistry
from corral.cloud.novita.account import GuardedCloud
from corral.domain.lifecycle.decide import Policy
from corral.engine.auth import audit_log
from corral.engine.auth.api_keys import ApiKeys
from corral.engine.commands.adopt import AdoptInstance
from corral.engine.events.publisher import EventPublisher
from corral.engine.ids import random_id
from corral.engine.maintenance.orphans import OrphanSweep
from corral.engine.maintenance.stuck import StuckSweep
from corral.engine.observe.observations import Observations
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.estimates import Estimates
from corral.engine.queries.instance_details import InstanceDescriber
from corral.engine.queries.merged_listing import MergedListing
from corral.jobs import retention
from corral.jobs.queue import JobQueue
from corral.jobs.registry import Registry
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.session.notifications import Notifications
from corral.views.instance import InstanceView
from corral.webhooks.slots import SEND_SLOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """What every other part stands on."""

    settings: Settings
    role: Role
    clock: Clock
    target: DatabaseTarget
    database: Database
    installation: str
    metrics: Metrics
    registry: Registry
    policy: Policy
    limits: Limits
    service_health: ProcessHealth
    queue: JobQueue
    caches: CacheInvalidation
    notices: Notifications
    event_publisher: EventPublisher
    describer: InstanceDescriber
    keys: ApiKeys


def build_foundation(
    settings: Settings,
    role: Role,
    *,
    clock: Clock,
    target: DatabaseTarget,
    database: Database,
    installation: str,
    application_name: str,
) -> Foundation:
    """The ground of one process, with the jobs that keep its tables small."""
    metrics, registry, book = Metrics(), Registry(), CacheRegistry(settings.caches, clock)
    metrics.registry.register(CacheCollector(book))
    queue, caches, notices = (
        JobQueue(database, registry),
        CacheInvalidation(book, database),
        Notifications(target, clock, application_name=application_name),
    )
    caches.listen(notices)
    for job_type in (
        retention.sweep(queue),
        retention.sweep_answers(database, clock),
        audit_log.sweep(database, clock),
    ):
        registry.add(job_type)
    policy = Policy()
    service_health = ProcessHealth(started_at=clock.now())
    return Foundation(
        settings=settings,
        role=role,
        clock=clock,
        target=target,
        database=database,
        installation=installation,
        metrics=metrics,
        registry=registry,
        policy=policy,
        limits=Limits(
            connections=fd_limit.for_callers(fd_limit.take_all(), jobs=settings.jobs.max_concurrent, sends=SEND_SLOTS)
        ),
        service_health=service_health,
        queue=queue,
        caches=caches,
        notices=notices,
        event_publisher=EventPublisher(queue, default_webhook_url=settings.webhooks.url, metrics=metrics),
        describer=InstanceDescriber(
            view=InstanceView(
                ready_word=settings.instances.ready_status,
                policy=policy,
                poll_interval=timedelta(seconds=settings.instances.poll_interval_seconds),
            ),
            clock=clock,
            estimates=Estimates(database, clock),
            last_listing_at=lambda: service_health.last_look_at,
        ),
        keys=ApiKeys(database, book, clock),
    )


def adopting_on(foundation: Foundation, cloud: GuardedCloud, catalog: Catalog) -> AdoptInstance:
    """Who adopts."""
    return AdoptInstance(
        cloud=cloud,
        catalog=catalog,
        database=foundation.database,
        queue=foundation.queue,
        tell=foundation.event_publisher.tell,
        caches=foundation.caches.book,
        clock=foundation.clock,
        installation=foundation.installation,
        new_id=random_id,
    )


def listing_on(foundation: Foundation, cloud: GuardedCloud) -> MergedListing:
    """The merged listing."""
    sightings = Observations(
        database=foundation.database,
        queue=foundation.queue,
        clock=foundation.clock,
        policy=foundation.policy,
        installation=foundation.installation,
        tell=foundation.event_publisher.tell,
    )
    return MergedListing(
        cloud=cloud,
        database=foundation.database,
        caches=foundation.caches.book,
        sightings=sightings,
        clock=foundation.clock,
        describer=foundation.describer,
    )


def register_sweeps(foundation: Foundation, cloud: GuardedCloud, catalog: Catalog) -> StuckSweep:
    """Have orphans and what makes no progress looked for every minute."""
    orphan_sweep = OrphanSweep(
        cloud=cloud,
        catalog=catalog,
        database=foundation.database,
        tell=foundation.event_publisher.tell,
        clock=foundation.clock,
        installation=foundation.installation,
        rule=foundation.settings.instances.orphans,
    )
    stuck_sweep = StuckSweep(database=foundation.database, clock=foundation.clock)
    for job_type in (orphan_sweep.job_type(), stuck_sweep.job_type()):
        foundation.registry.add(job_type)
    return stuck_sweep
