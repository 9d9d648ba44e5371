"""The only file that knows every part: it puts one process together and takes it apart again."""

from __future__ import annotations

import contextlib
import gc
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from litestar.types import ASGIApp

from corral import __version__
from corral.api import app
from corral.api.http.request_readers import RequestReader, order_defaults
from corral.api.http.server import HttpServer, listen
from corral.api.middleware.response_cache import ResponseCache
from corral.api.routes.adoption import AdoptionServices
from corral.api.routes.instances import InstanceServices
from corral.api.routes.listing import ListingServices
from corral.api.routes.orphans import OrphanServices
from corral.app.database_setup import migrate_database, opened_database
from corral.app.foundation import Foundation, adopting_on, build_foundation, listing_on, register_sweeps
from corral.app.process import DependencyMonitor, Process
from corral.app.role import Role
from corral.base.clock import SharedClock
from corral.base.settings import HttpSettings, Settings
from corral.base.supervision import BackgroundTask
from corral.base.telemetry import log
from corral.cloud.novita.account import GuardedCloud, opened_account
from corral.cloud.simulated import opened_provider
from corral.dashboard import files
from corral.domain.errors import SettingsError
from corral.domain.observation.adoption import Adoption
from corral.domain.rate_limit import RateLimit
from corral.engine.auth.audit_log import AuditLog
from corral.engine.auth.request_counts import SharedRequestCounts
from corral.engine.commands.adopt import AdoptInstance
from corral.engine.commands.change import ChangeInstance
from corral.engine.commands.create import CreateInstance
from corral.engine.events.log import EventLog
from corral.engine.events.stream import EventStream
from corral.engine.events.webhook_sender import WebhookSender
from corral.engine.ids import random_id
from corral.engine.maintenance import delivery_retention
from corral.engine.observe.observations import Observations
from corral.engine.observe.observer import Observer
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.fleet import Fleet
from corral.engine.queries.fleet_gauges import FleetGauges
from corral.engine.queries.instances import InstanceQueries
from corral.engine.queries.merged_listing import MergedListing
from corral.engine.queries.provider_name_lookup import ProviderNameLookup
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.reconciler import Reconciler
from corral.engine.reconcile.recorder import Recorder
from corral.engine.reconcile.steps.create import CreateStep
from corral.engine.reconcile.steps.dispatch import Steps
from corral.engine.reconcile.steps.start import StartStep
from corral.engine.reconcile.unmade import UncreatedInstances
from corral.health.probe import Prober
from corral.jobs.adaptive_semaphore import URGENT_PLACES
from corral.jobs.pause import Pause
from corral.jobs.registry import JobPool
from corral.jobs.takeover import release
from corral.jobs.worker import Worker
from corral.outbound.addresses import read_address
from corral.outbound.policy import AddressPolicy
from corral.store.session.database import Database
from corral.store.session.leadership import Leadership
from corral.store.session.presence import Presence
from corral.store.tables import installation_id
from corral.store.tables.offers import FailedOffers
from corral.store.tables.rate_limit import DatabaseRateLimitStore
from corral.webhooks.deliver import Sender
from corral.webhooks.guard import AddressGuard
from corral.webhooks.sign import signing_key
from corral.webhooks.slots import SEND_SLOTS

API_CONNECTIONS = 10
SPARE_CONNECTIONS = 8
"""
Beside one for each running job and send: the listeners and bookkeeping of both queues, the observer, the budget and the
watch.
"""

OPEN_CONNECTIONS = 6
"""Opened before the first request: a new one takes as long as the request itself, and a burst would wait for each."""


async def serve(
    settings: Settings,
    role: Role,
    *,
    on_ready: Callable[[str], None],
    dropped_log_lines: Callable[[], int] = lambda: 0,
) -> None:
    """
    Run one process of Corral until SIGTERM or SIGINT; *on_ready* is told the address once requests are served.

    *dropped_log_lines* returns how many lines of the log were lost since it was last called.
    """
    clock = SharedClock()
    if role is not Role.WORKER:
        _check_origins(settings.http)
    log.info("service.starting", version=__version__, role=role.value)
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(listen(settings.http.host, settings.http.port)))
        target, embedded = await stack.enter_async_context(opened_database(settings, clock))
        await migrate_database(target)
        presence = Presence(target, clock, role=role.value, release=release, seats=settings.jobs.max_concurrent)
        await stack.enter_async_context(presence.kept())
        database = await Database.connect(
            target,
            most_connections=_connections(settings, role),
            least_connections=OPEN_CONNECTIONS,
            application_name=presence.application_name,
        )
        stack.push_async_callback(database.close)
        async with database.connection() as connection:
            installation = await installation_id.load(connection)
        foundation = build_foundation(
            settings,
            role,
            clock=clock,
            target=target,
            database=database,
            installation=installation,
            application_name=presence.application_name,
        )
        await _check_keys(foundation)
        stack.push_async_callback(foundation.keys.note_uses)
        simulated, base_url, api_key = await stack.enter_async_context(opened_provider(settings, clock))
        cloud = await stack.enter_async_context(
            opened_account(
                settings.provider,
                base_url=base_url,
                api_key=api_key,
                ledger=DatabaseRateLimitStore(database),
                clock=clock,
                metrics=foundation.metrics,
                jitter=random.random,
            )
        )
        catalog = _catalog(foundation, cloud)
        prober = await stack.enter_async_context(Prober.open(clock=clock, policy=probe_policy(settings, base_url)))
        listing = listing_on(foundation, cloud)
        gate = CreateGate(clock, foundation.policy, place="" if embedded is None else embedded.place())
        async with database.connection() as connection:
            await gate.start(connection)
        engine = _engine(foundation, cloud, catalog, prober, listing, presence=presence, gate=gate)
        front = await _front(stack, foundation, cloud, catalog, listing)
        pause = Pause()
        process = Process(
            server=HttpServer(front.app, listener, clock=clock, limits=foundation.limits),
            workers=_workers(foundation, presence, pause),
            watch=DependencyMonitor(
                database=database,
                embedded=embedded,
                simulated=simulated,
                reachability=cloud.snapshot,
                service_health=foundation.service_health,
                metrics=foundation.metrics,
                clock=clock,
                poll_interval=timedelta(seconds=settings.instances.poll_interval_seconds),
                pause=pause,
                dropped_log_lines=dropped_log_lines,
            ),
            service_health=foundation.service_health,
            end_streams=front.hub.stop,
            background=(
                BackgroundTask("notices", foundation.notices.run),
                BackgroundTask("key uses", foundation.keys.run),
                BackgroundTask("cache clean-up", foundation.caches.book.clean_up_repeatedly),
                *front.background,
                *engine,
            ),
            clock=clock,
        )
        _spare_what_stays()
        await process.run(on_ready)
    log.info("service.stopped")


def _spare_what_stays() -> None:
    """Have Python look for garbage less often, and not among what was made at the start: a wish costs 3 % less CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _check_origins(http: HttpSettings) -> None:
    """Refuse to let every web page act as this machine's administrator, who needs no key on a loopback address."""
    wide = [origin for origin in http.allowed_origins if "*" in origin or origin == "null"]
    if http.is_loopback and wide:
        raise SettingsError(
            f"ALLOWED_ORIGINS={','.join(wide)} would let every web page use this Corral, because no API key is needed "
            f"with HOST={http.host}: name each origin, as in https://ops.example"
        )


async def _check_keys(foundation: Foundation) -> None:
    """Refuse to be reached by other machines while nobody could prove who they are."""
    http = foundation.settings.http
    if not http.is_loopback and foundation.role is not Role.WORKER and await foundation.keys.is_empty():
        raise SettingsError(
            f"HOST={http.host} can be reached from other machines and there is no API key yet: "
            "make one with `corral keys create NAME --role admin`, or use HOST=127.0.0.1"
        )


def probe_policy(settings: Settings, provider_url: str) -> AddressPolicy:
    """Which addresses health checks may connect to: those of this machine only if the provider is there as well."""
    host = urlsplit(provider_url).hostname or ""
    address = read_address(host)
    is_local = host == "localhost" or (address is not None and address.is_loopback)
    return AddressPolicy(allow_private=settings.health_checks.allow_private, allow_loopback=is_local)


def _connections(settings: Settings, role: Role) -> int:
    for_api = API_CONNECTIONS if role is not Role.WORKER else 0
    for_jobs = settings.jobs.max_concurrent + URGENT_PLACES + SEND_SLOTS if role is not Role.API else 0
    return for_api + for_jobs + SPARE_CONNECTIONS


def _catalog(foundation: Foundation, cloud: GuardedCloud) -> Catalog:
    chosen = foundation.settings.instances
    return Catalog(
        cloud,
        foundation.caches.book,
        FailedOffers(foundation.database),
        foundation.clock,
        default_region=chosen.default_region,
        regions=chosen.regions,
    )


def _fleet(foundation: Foundation, cloud: GuardedCloud) -> Fleet:
    limit = foundation.settings.provider.rate_limit_per_minute
    return Fleet(
        foundation.database,
        foundation.queue,
        calls_a_minute=None if limit == "auto" else limit,
        reachability=cloud.snapshot,
        clock=foundation.clock,
    )


def _namesakes(settings: Settings, cloud: GuardedCloud, adopting: AdoptInstance) -> ProviderNameLookup | None:
    if not settings.instances.startup_name_lookup:
        return None
    return ProviderNameLookup(cloud=cloud, adopting=adopting, adoption=Adoption(health=order_defaults(settings).health))


def _engine(
    foundation: Foundation,
    cloud: GuardedCloud,
    catalog: Catalog,
    prober: Prober,
    listing: MergedListing,
    *,
    presence: Presence,
    gate: CreateGate,
) -> list[BackgroundTask]:
    """Register what jobs do; answers what runs beside them."""
    clock, policy, installation = foundation.clock, foundation.policy, foundation.installation
    recorder = Recorder(event_publisher=foundation.event_publisher)
    sightings = Observations(
        database=foundation.database,
        queue=foundation.queue,
        clock=clock,
        policy=policy,
        installation=installation,
        tell=foundation.event_publisher.tell,
    )
    create_step = CreateStep(
        cloud=cloud,
        database=foundation.database,
        catalog=catalog,
        gate=gate,
        unmade=UncreatedInstances.of(cloud, sightings),
        recorder=recorder,
        clock=clock,
        installation=installation,
        policy=policy,
    )
    recent_lookups = RecentLookups()
    acts = Steps(
        cloud=cloud,
        create_step=create_step,
        start_step=StartStep(cloud=cloud, recorder=recorder, clock=clock, policy=policy),
        prober=prober,
        recorder=recorder,
        clock=clock,
        policy=policy,
        jitter=random.random,
        recent_lookups=recent_lookups,
    )
    reconciler = Reconciler(
        database=foundation.database,
        acts=acts,
        recorder=recorder,
        clock=clock,
        policy=policy,
        metrics=foundation.metrics,
    )
    for job_type in reconciler.job_types(foundation.settings.provider.max_retry_attempts):
        foundation.registry.add(job_type)
    if foundation.role is Role.API:
        return []
    observer = Observer(
        cloud=cloud,
        database=foundation.database,
        queue=foundation.queue,
        tell=foundation.event_publisher.tell,
        leadership=Leadership(
            foundation.target, clock, matter="corral observer", application_name=presence.application_name
        ),
        clock=clock,
        policy=policy,
        installation=installation,
        idle_interval=timedelta(seconds=foundation.settings.instances.poll_interval_seconds),
        calls_per_minute=lambda: cloud.snapshot().calls_per_minute,
        on_listing=listing.heard,
        recent_lookups=recent_lookups,
        metrics=foundation.metrics,
    )
    foundation.notices.subscribe("events", lambda _key: observer.wake())
    return [BackgroundTask("observer", observer.run)]


def _workers(foundation: Foundation, presence: Presence, pause: Pause) -> list[Worker]:
    """One worker for each pool of jobs; jobs that send may be twice the slots, because some wait for one."""
    if foundation.role is Role.API:
        return []
    slots = {JobPool.MAIN: foundation.settings.jobs.max_concurrent, JobPool.WEBHOOKS: 2 * SEND_SLOTS}
    return [
        Worker(
            foundation.database,
            foundation.registry.of_pool(pool),
            foundation.queue,
            clock=foundation.clock,
            metrics=foundation.metrics,
            concurrency=concurrency,
            pool=pool,
            process_id=presence.id,
            pause=pause,
            is_crowded=lambda: foundation.service_health.is_crowded,
        )
        for pool, concurrency in slots.items()
    ]


def _warm_answers(foundation: Foundation) -> ResponseCache:
    answers = ResponseCache(foundation.clock)
    answers.listen(foundation.notices)
    return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class _HttpSide:
    """What callers see."""

    app: ASGIApp
    hub: EventStream
    background: tuple[BackgroundTask, ...]


async def _front(
    stack: AsyncExitStack, foundation: Foundation, cloud: GuardedCloud, catalog: Catalog, listing: MergedListing
) -> _HttpSide:
    settings, clock, database = foundation.settings, foundation.clock, foundation.database
    describer = foundation.describer
    guard = AddressGuard(clock=clock, allow_private=settings.webhooks.allow_private)
    key = settings.webhooks.secret
    sender = await stack.enter_async_context(
        Sender.open(
            clock=clock,
            guard=guard,
            timeout_ms=settings.webhooks.timeout_ms,
            key=None if key is None else signing_key(key.get_secret_value()),
        )
    )
    event_log = EventLog(database, ready_word=settings.instances.ready_status)
    hub = EventStream(event_log, clock=clock, metrics=foundation.metrics)
    hub.listen(foundation.notices)
    deliveries = WebhookSender(
        database,
        foundation.queue,
        sender=sender,
        describer=describer,
        clock=clock,
        metrics=foundation.metrics,
        jitter=random.random,
    )
    for job_type in (deliveries.job_type(), delivery_retention.sweep(database, foundation.queue, clock)):
        foundation.registry.add(job_type)
    adopting = adopting_on(foundation, cloud, catalog)
    desk = InstanceServices(
        commands=CreateInstance(
            database=database,
            catalog=catalog,
            queue=foundation.queue,
            event_publisher=foundation.event_publisher,
            caches=foundation.caches.book,
            estimates=describer.estimates,
            clock=clock,
            new_id=random_id,
        ),
        changes=ChangeInstance(
            database=database,
            queue=foundation.queue,
            tell=foundation.event_publisher.tell,
            caches=foundation.caches.book,
            estimates=describer.estimates,
            clock=clock,
            new_id=random_id,
            start_within=timedelta(milliseconds=settings.instances.startup_max_wait_ms),
            view=describer.view,
            namesakes=_namesakes(settings, cloud, adopting),
        ),
        orders=RequestReader(order_defaults(settings), guard),
        reading=InstanceQueries(database, foundation.caches.book),
        describer=describer,
    )
    request_limit = _quota(settings.http)
    fleet = _fleet(foundation, cloud)
    gauges = FleetGauges(fleet)
    foundation.metrics.registry.register(gauges)
    parts = app.AppDependencies(
        clock=clock,
        metrics=foundation.metrics,
        service_health=foundation.service_health,
        queue=foundation.queue,
        local_only=settings.http.is_loopback,
        allowed_origins=settings.http.allowed_origins,
        limits=foundation.limits,
        keys=foundation.keys,
        audit=AuditLog(database, clock, foundation.metrics),
        request_limit=request_limit,
        catalog=catalog,
        caches=foundation.caches,
        event_log=event_log,
        event_hub=hub,
        deliveries=deliveries,
        instances=desk,
        fleet=fleet,
        gauges=gauges,
        ready_word=settings.instances.ready_status,
        listing=ListingServices(listing=listing, settings=settings.listing, clock=clock),
        orphans=OrphanServices(
            database=database,
            stuck=register_sweeps(foundation, cloud, catalog),
            view=describer.view,
            rule=settings.instances.orphans,
        ),
        adoption=AdoptionServices(adopting=adopting, orders=desk.orders, describer=describer),
        answers=_warm_answers(foundation),
        database=database,
        pages=files.handlers(),
    )
    if foundation.role is Role.WORKER:
        return _HttpSide(app=app.build(parts, only_watching=True), hub=hub, background=())
    background = [BackgroundTask("event streams", hub.run)]
    if request_limit is not None:
        background.append(BackgroundTask("request counts", SharedRequestCounts(request_limit, database, clock).run))
    return _HttpSide(app=app.build(parts), hub=hub, background=tuple(background))


def _quota(chosen: HttpSettings) -> RateLimit | None:
    most = chosen.rate_limit_max_requests
    return RateLimit(most=most, window_seconds=chosen.rate_limit_window_ms / 1000) if most else None
