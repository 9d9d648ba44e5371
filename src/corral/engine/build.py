"""
How the parts of the engine are built and connected.

The service, an offline command and a test all get their engine from `build_engine`.
"""

from __future__ import annotations

from datetime import timedelta

from corral.base.supervision import BackgroundTask
from corral.cache.registry import CacheRegistry
from corral.domain.observation.adoption import Adoption
from corral.engine.auth.api_keys import ApiKeys
from corral.engine.auth.audit_log import AuditLog
from corral.engine.budgets.balance_sweep import BalanceSweep
from corral.engine.budgets.book import BudgetBook
from corral.engine.budgets.reservations import BudgetReservations
from corral.engine.budgets.sweep import BudgetSweep
from corral.engine.commands.adopt import AdoptInstance, ProviderNameLookup
from corral.engine.commands.change import ChangeInstance
from corral.engine.commands.create import CreateInstance
from corral.engine.commands.judge_leases import JudgeLeases
from corral.engine.commands.lease import ChangeLease
from corral.engine.commands.relabel import RelabelInstance
from corral.engine.commands.stop_all import StopAllInstances
from corral.engine.costs.account import AccountQueries
from corral.engine.costs.bill_reconciler import BillReconciler
from corral.engine.costs.cost_queries import CostQueries
from corral.engine.costs.exports import CostExports
from corral.engine.costs.forecasts import CostForecasts
from corral.engine.engine import Engine, job_types
from corral.engine.events.log import EventLog
from corral.engine.events.publisher import EventPublisher
from corral.engine.events.webhook_sender import WebhookSender
from corral.engine.leases.lease_reconciler import LeaseReconciler
from corral.engine.leases.sampler import IdleSampler
from corral.engine.machine.credentials import CredentialQueries
from corral.engine.machine.fleet_utilization import FleetUtilizationQueries
from corral.engine.machine.image_pulls import ImagePulls
from corral.engine.machine.log_relay import LogRelay
from corral.engine.machine.metrics import MetricQueries
from corral.engine.maintenance.orphans import OrphanSweep
from corral.engine.maintenance.stuck import StuckSweep
from corral.engine.observe.observations import Observations
from corral.engine.observe.observer import Observer
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.estimates import Estimates
from corral.engine.queries.fleet import Fleet
from corral.engine.queries.instance_pages import InstancePages
from corral.engine.queries.instances import InstanceDescriber, InstanceQueries
from corral.engine.queries.merged_listing import MergedListing
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.grouped_writes import GroupedWrites
from corral.engine.reconcile.instance_locks import InstanceLocks
from corral.engine.reconcile.reconciler import Reconciler
from corral.engine.reconcile.recorder import Recorder
from corral.engine.reconcile.steps.create import CreateStep
from corral.engine.reconcile.steps.dispatch import Steps
from corral.engine.reconcile.uncreated import UncreatedInstances
from corral.engine.runtime import Runtime
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
    event_publisher = EventPublisher(queue, default_webhook_url=settings.webhooks.address, metrics=metrics)
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
        event_publisher=event_publisher,
    )
    merged_listing = MergedListing(
        cloud=cloud, database=database, caches=cache_registry, sightings=observations, clock=clock, describer=describer
    )
    adopt = AdoptInstance(
        cloud=cloud,
        catalog=catalog,
        database=database,
        queue=queue,
        event_publisher=event_publisher,
        caches=cache_registry,
        clock=clock,
        installation=installation,
        new_id=runtime.new_id,
    )
    adoption = Adoption(health=runtime.create_defaults.health)
    name_lookup = ProviderNameLookup(cloud=cloud, adopting=adopt, adoption=adoption)
    reservations = BudgetReservations(database=database, hours=settings.costs.reserve_hours)
    change = ChangeInstance(
        database=database,
        queue=queue,
        event_publisher=event_publisher,
        caches=cache_registry,
        estimates=describer.estimates,
        clock=clock,
        new_id=runtime.new_id,
        start_within=timedelta(milliseconds=settings.instances.startup_max_wait_ms),
        view=describer.view,
        budgets=reservations,
        name_lookup=name_lookup if settings.instances.startup_name_lookup else None,
    )
    calls_a_minute = settings.provider.rate_limit_per_minute
    gate, recent_lookups = CreateGate(clock, policy, place=runtime.place), RecentLookups(clock)
    recorder = Recorder(event_publisher=event_publisher, grouped=GroupedWrites(database=database))
    create_step = CreateStep(
        runtime=runtime,
        catalog=catalog,
        gate=gate,
        unmade=UncreatedInstances.of(cloud, observations),
        recorder=recorder,
        budgets=reservations,
    )
    sampler = IdleSampler(
        cloud=cloud,
        database=database,
        queue=queue,
        clock=clock,
        metrics=metrics,
        calls_per_minute=lambda: runtime.reachability().calls_per_minute * settings.provider.metrics_share,
    )
    queries = InstanceQueries(database, cache_registry)
    logs = LogRelay(cloud, queries, runtime.logs, clock=clock, metrics=metrics)
    steps = Steps(runtime=runtime, create_step=create_step, recorder=recorder, recent_lookups=recent_lookups)
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
        queries=queries,
        pages=InstancePages(database, describer, clock),
        listing=merged_listing,
        fleet=Fleet(
            database,
            queue,
            calls_a_minute=None if calls_a_minute == "auto" else calls_a_minute,
            reachability=runtime.reachability,
            clock=clock,
        ),
        costs=CostQueries(database, clock),
        forecasts=CostForecasts(database, clock),
        exports=CostExports(database, clock, installation=installation),
        account=AccountQueries(cloud, clock),
        credentials=CredentialQueries(cloud, queries),
        logs=logs,
        image_pulls=ImagePulls(logs, clock),
        metrics=MetricQueries(cloud, queries, clock),
        utilization=FleetUtilizationQueries(
            cloud,
            database,
            clock,
            share=settings.provider.metrics_share,
            calls_per_minute=lambda: runtime.reachability().calls_per_minute,
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
            secret_key=runtime.secret_key,
            budgets=reservations,
        ),
        change=change,
        stop_all=StopAllInstances(database=database, change=change),
        adopt=adopt,
        relabel=RelabelInstance(database=database, event_publisher=event_publisher, caches=cache_registry, clock=clock),
        lease=ChangeLease(
            database=database,
            event_publisher=event_publisher,
            caches=cache_registry,
            clock=clock,
            describer=describer,
            defaults=runtime.create_defaults.lease,
        ),
        budgets=BudgetBook(database=database, clock=clock),
        judge_leases=JudgeLeases(database=database, queue=queue, clock=clock),
        gate=gate,
        reconciler=Reconciler(
            runtime=runtime,
            steps=steps,
            recorder=recorder,
            gate=gate,
            locks=InstanceLocks(database),
            leases=LeaseReconciler(
                database=database, recorder=recorder, change=change, gate=gate, clock=clock, metrics=metrics
            ),
        ),
        sampler=sampler,
        observer=Observer(
            cloud=cloud,
            database=database,
            queue=queue,
            observations=observations,
            leadership=Leadership(
                runtime.target, clock, matter="corral observer", application_name=runtime.application_name
            ),
            clock=clock,
            policy=policy,
            installation=installation,
            idle_interval=timedelta(seconds=settings.instances.poll_interval_seconds),
            calls_per_minute=lambda: runtime.reachability().calls_per_minute,
            on_listing=merged_listing.heard,
            leader_tasks=[BackgroundTask("idle sampler", sampler.run)],
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
            event_publisher=event_publisher,
            clock=clock,
            installation=installation,
            rule=settings.instances.orphans,
        ),
        stuck_sweep=StuckSweep(database=database, clock=clock),
        bill_reconciler=BillReconciler(
            cloud=cloud,
            database=database,
            clock=clock,
            installation=installation,
            is_daily=settings.costs.reconcile,
        ),
        balance_sweep=BalanceSweep(
            cloud=cloud,
            database=database,
            event_publisher=event_publisher,
            clock=clock,
            hours=settings.costs.low_balance_hours,
        ),
        budget_sweep=BudgetSweep(
            cloud=cloud, database=database, event_publisher=event_publisher, change=change, clock=clock
        ),
    )
    for job_type in job_types(engine):
        registry.add(job_type)
    return engine
