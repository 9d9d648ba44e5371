"""Builds the engine of one process: the service, an offline command and a test all get it from `build_engine`."""

from __future__ import annotations

from datetime import timedelta

from corral.api.http.request_readers import order_defaults
from corral.app import jobs
from corral.base.settings import Settings
from corral.cache.registry import CacheRegistry
from corral.cloud.port import Cloud
from corral.domain.observation.adoption import Adoption
from corral.engine.auth.api_keys import ApiKeys
from corral.engine.auth.audit_log import AuditLog
from corral.engine.commands.adopt import AdoptInstance, ProviderNameLookup
from corral.engine.commands.change import ChangeInstance
from corral.engine.commands.create import CreateInstance
from corral.engine.engine import Engine, Runtime
from corral.engine.events.log import EventLog
from corral.engine.events.publisher import EventPublisher
from corral.engine.events.webhook_sender import WebhookSender
from corral.engine.maintenance.orphans import OrphanSweep
from corral.engine.maintenance.stuck import StuckSweep
from corral.engine.observe.observations import Observations
from corral.engine.observe.observer import Observer
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.estimates import Estimates
from corral.engine.queries.fleet import Fleet
from corral.engine.queries.instances import InstanceDescriber, InstanceQueries
from corral.engine.queries.merged_listing import MergedListing
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.reconciler import Reconciler
from corral.engine.reconcile.recorder import Recorder
from corral.engine.reconcile.steps.create import CreateStep
from corral.engine.reconcile.steps.dispatch import Steps
from corral.engine.reconcile.steps.start import StartStep
from corral.engine.reconcile.uncreated import UncreatedInstances
from corral.jobs.queue import JobQueue
from corral.jobs.registry import Registry
from corral.store.session.leadership import Leadership
from corral.store.tables.offers import FailedOffers
from corral.views.instance import InstanceView


def build_engine(runtime: Runtime) -> Engine:
    """Return an engine on *runtime*; it starts nothing and reads nothing."""
    settings, clock, database, metrics = runtime.settings, runtime.clock, runtime.database, runtime.metrics
    cloud, policy, installation = runtime.cloud, runtime.policy, runtime.installation
    registry, cache_registry = Registry(), CacheRegistry(settings.caches, clock)
    queue = JobQueue(database, registry)
    event_publisher = EventPublisher(queue, default_webhook_url=settings.webhooks.url, metrics=metrics)
    event_log = EventLog(database, ready_word=settings.instances.ready_status)
    describer = InstanceDescriber(
        view=InstanceView(
            ready_word=settings.instances.ready_status,
            policy=policy,
            poll_interval=timedelta(seconds=settings.instances.poll_interval_seconds),
        ),
        clock=clock,
        estimates=Estimates(database, clock),
        last_listing_at=runtime.last_listing_at,
    )
    catalog = Catalog(
        cloud,
        cache_registry,
        FailedOffers(database),
        clock,
        default_region=settings.instances.default_region,
        regions=settings.instances.regions,
    )
    observations = Observations(
        database=database,
        queue=queue,
        clock=clock,
        policy=policy,
        installation=installation,
        publish=event_publisher.publish,
    )
    merged_listing = MergedListing(
        cloud=cloud,
        database=database,
        caches=cache_registry,
        sightings=observations,
        clock=clock,
        describer=describer,
    )
    adopt = AdoptInstance(
        cloud=cloud,
        catalog=catalog,
        database=database,
        queue=queue,
        publish=event_publisher.publish,
        caches=cache_registry,
        clock=clock,
        installation=installation,
        new_id=runtime.new_id,
    )
    gate, recent_lookups = CreateGate(clock, policy, place=runtime.place), RecentLookups(clock)
    engine = Engine(
        runtime=runtime,
        registry=registry,
        queue=queue,
        caches=CacheInvalidation(cache_registry, database),
        event_publisher=event_publisher,
        event_log=event_log,
        keys=ApiKeys(database, cache_registry, clock),
        audit=AuditLog(database, clock, metrics),
        describer=describer,
        catalog=catalog,
        queries=InstanceQueries(database, cache_registry),
        listing=merged_listing,
        fleet=Fleet(
            database,
            queue,
            calls_a_minute=_fixed_limit(settings),
            reachability=runtime.reachability,
            clock=clock,
        ),
        create=CreateInstance(
            database=database,
            catalog=catalog,
            queue=queue,
            event_publisher=event_publisher,
            caches=cache_registry,
            estimates=describer.estimates,
            clock=clock,
            new_id=runtime.new_id,
        ),
        change=ChangeInstance(
            database=database,
            queue=queue,
            event_publisher=event_publisher,
            caches=cache_registry,
            estimates=describer.estimates,
            clock=clock,
            new_id=runtime.new_id,
            start_within=timedelta(milliseconds=settings.instances.startup_max_wait_ms),
            view=describer.view,
            name_lookup=_provider_name_lookup(settings, cloud, adopt),
        ),
        adopt=adopt,
        gate=gate,
        reconciler=_reconciler(
            runtime,
            event_publisher=event_publisher,
            catalog=catalog,
            gate=gate,
            observations=observations,
            recent_lookups=recent_lookups,
        ),
        observer=Observer(
            cloud=cloud,
            database=database,
            queue=queue,
            publish=event_publisher.publish,
            leadership=Leadership(
                runtime.target, clock, matter="corral observer", application_name=runtime.application_name
            ),
            clock=clock,
            policy=policy,
            installation=installation,
            idle_interval=timedelta(seconds=settings.instances.poll_interval_seconds),
            calls_per_minute=lambda: runtime.reachability().calls_per_minute,
            on_listing=merged_listing.heard,
            recent_lookups=recent_lookups,
            metrics=metrics,
        ),
        webhook_sender=WebhookSender(
            database=database,
            queue=queue,
            sender=runtime.sender,
            describer=describer,
            clock=clock,
            metrics=metrics,
            jitter=runtime.jitter,
        ),
        orphan_sweep=OrphanSweep(
            cloud=cloud,
            catalog=catalog,
            database=database,
            publish=event_publisher.publish,
            clock=clock,
            installation=installation,
            rule=settings.instances.orphans,
        ),
        stuck_sweep=StuckSweep(database=database, clock=clock),
    )
    for job_type in jobs.job_types(engine):
        registry.add(job_type)
    return engine


def _reconciler(
    runtime: Runtime,
    *,
    event_publisher: EventPublisher,
    catalog: Catalog,
    gate: CreateGate,
    observations: Observations,
    recent_lookups: RecentLookups,
) -> Reconciler:
    clock, policy, cloud, database = runtime.clock, runtime.policy, runtime.cloud, runtime.database
    recorder = Recorder(event_publisher=event_publisher)
    create_step = CreateStep(
        cloud=cloud,
        database=database,
        catalog=catalog,
        gate=gate,
        unmade=UncreatedInstances.of(cloud, observations),
        recorder=recorder,
        clock=clock,
        installation=runtime.installation,
        policy=policy,
    )
    steps = Steps(
        cloud=cloud,
        create_step=create_step,
        start_step=StartStep(cloud=cloud, recorder=recorder, clock=clock, policy=policy),
        prober=runtime.prober,
        recorder=recorder,
        clock=clock,
        policy=policy,
        jitter=runtime.jitter,
        recent_lookups=recent_lookups,
    )
    return Reconciler(
        database=database,
        steps=steps,
        recorder=recorder,
        gate=gate,
        clock=clock,
        policy=policy,
        metrics=runtime.metrics,
    )


def _fixed_limit(settings: Settings) -> int | None:
    limit = settings.provider.rate_limit_per_minute
    return None if limit == "auto" else limit


def _provider_name_lookup(settings: Settings, cloud: Cloud, adopt: AdoptInstance) -> ProviderNameLookup | None:
    if not settings.instances.startup_name_lookup:
        return None
    return ProviderNameLookup(cloud=cloud, adopting=adopt, adoption=Adoption(health=order_defaults(settings).health))
