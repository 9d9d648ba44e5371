"""
The engine of one process: its parts, and its job types.

`build.py` builds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.engine.auth.api_keys import ApiKeys
from corral.engine.auth.audit_log import AuditLog
from corral.engine.budgets.balance_sweep import BalanceSweep
from corral.engine.budgets.book import BudgetBook
from corral.engine.budgets.sweep import BudgetSweep
from corral.engine.commands.adopt import AdoptInstance
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
from corral.engine.costs.usage_prices import price_usage
from corral.engine.events.log import EventLog
from corral.engine.events.publisher import EventPublisher
from corral.engine.events.webhook_sender import WebhookSender
from corral.engine.leases.lease_sweep import sweep_leases
from corral.engine.leases.sampler import IdleSampler
from corral.engine.machine.credentials import CredentialQueries
from corral.engine.machine.fleet_utilization import FleetUtilizationQueries
from corral.engine.machine.image_pulls import ImagePulls
from corral.engine.machine.log_relay import LogRelay
from corral.engine.machine.metrics import MetricQueries
from corral.engine.maintenance import retention
from corral.engine.maintenance.orphans import OrphanSweep
from corral.engine.maintenance.stuck import StuckSweep
from corral.engine.observe.observer import Observer
from corral.engine.queries.cache_invalidation import CacheInvalidation
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.fleet import Fleet
from corral.engine.queries.instance_pages import InstancePages
from corral.engine.queries.instances import InstanceDescriber, InstanceQueries
from corral.engine.queries.merged_listing import MergedListing
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.reconciler import Reconciler
from corral.engine.runtime import Runtime
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobType, Registry


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
    pages: InstancePages
    listing: MergedListing
    fleet: Fleet
    costs: CostQueries
    forecasts: CostForecasts
    exports: CostExports
    account: AccountQueries
    credentials: CredentialQueries
    logs: LogRelay
    image_pulls: ImagePulls
    metrics: MetricQueries
    utilization: FleetUtilizationQueries
    """`run` it in a process that serves HTTP."""
    create: CreateInstance
    change: ChangeInstance
    stop_all: StopAllInstances
    adopt: AdoptInstance
    relabel: RelabelInstance
    lease: ChangeLease
    budgets: BudgetBook
    judge_leases: JudgeLeases
    gate: CreateGate
    """`start` it before the first create."""
    reconciler: Reconciler
    sampler: IdleSampler
    """Run by the observer while it leads."""
    observer: Observer
    webhook_sender: WebhookSender
    orphan_sweep: OrphanSweep
    stuck_sweep: StuckSweep
    bill_reconciler: BillReconciler
    budget_sweep: BudgetSweep
    balance_sweep: BalanceSweep


def job_types(engine: Engine) -> list[JobType]:
    """Every job type, with its handler in *engine*."""
    runtime = engine.runtime
    return [
        *engine.reconciler.job_types(runtime.settings.provider.max_retry_attempts),
        engine.webhook_sender.job_type(),
        engine.orphan_sweep.job_type(),
        engine.stuck_sweep.job_type(),
        engine.bill_reconciler.job_type(),
        engine.budget_sweep.job_type(),
        engine.balance_sweep.job_type(),
        price_usage(runtime.database, engine.catalog),
        sweep_leases(runtime.database, runtime.clock),
        *retention.sweeps(runtime.database, engine.queue, runtime.clock, runtime.settings.store.event_retention_days),
    ]
