"""Puts one process together, runs it, and closes what it opened."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from corral import __version__
from corral.api.http.limits import Limits
from corral.api.http.process_health import ProcessHealth
from corral.api.http.server import HttpServer, listen
from corral.api.middleware.proxy_login import ProxyLogin
from corral.app.database_setup import migrate_database, opened_database
from corral.app.http_app import build_http_side
from corral.app.process import DependencyMonitor, Process
from corral.app.role import Role
from corral.app.runtime import open_runtime
from corral.base import fd_limit
from corral.base.clock import SharedClock
from corral.base.log import log
from corral.base.memory import return_free_memory
from corral.base.metrics import Metrics
from corral.base.settings.settings import HttpSettings, Settings
from corral.base.supervision import BackgroundTask
from corral.base.tracing import tracing
from corral.cache.registry import CacheCollector
from corral.domain.errors import SettingsError
from corral.engine.build import build_engine
from corral.engine.engine import Engine
from corral.jobs.execution import URGENT_PLACES
from corral.jobs.pause import Pause
from corral.jobs.pgqueuer_adapter import release
from corral.jobs.registry import JobPool
from corral.jobs.worker import Worker
from corral.store.installation import last_listing
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.session.database import Database
from corral.store.session.notifications import Notifications
from corral.store.session.presence import Presence
from corral.store.tables.callers import keys
from corral.webhooks.slots import SEND_SLOTS

API_CONNECTIONS = 10
"""For requests. Creates share statements, so few are busy at a time; fewer, and slow reads make each other wait; more,
and every process takes sessions of the server that others need."""
SPARE_CONNECTIONS = 8
"""Beside one for each running job and send: both queues, the records and checks that jobs share, the observer, the rate
limit store and the dependency monitor. Fewer, and these wait for jobs to end; more only cost sessions."""

OPEN_CONNECTIONS = 6
"""Opened before the first request: a new one takes as long as the request itself, and a burst would wait for each."""


async def serve(
    settings: Settings, role: Role, *, on_ready: Callable[[str], None], dropped_log_lines: Callable[[], int] = lambda: 0
) -> None:
    """
    Run one process of Corral until SIGTERM or SIGINT; calls *on_ready* with the address once requests are served.

    *dropped_log_lines* returns how many lines of the log were lost since it was last called.
    """
    clock, metrics, pause = SharedClock(), Metrics(), Pause()
    if role is not Role.WORKER:
        _check_origins(settings)
    SecretKeyFile.of(settings.store).check()
    log.info("service.starting", version=__version__, role=role.value)
    async with AsyncExitStack() as stack:
        if settings.tracing.enabled:
            tracing.start(role.value, clock)
            stack.push_async_callback(tracing.stop)
        listener = stack.enter_context(contextlib.closing(listen(settings.http.host, settings.http.port)))
        target, embedded = await stack.enter_async_context(opened_database(settings, clock))
        await migrate_database(target)
        presence = Presence(target, clock, role=role.value, release=release, places=settings.jobs.max_concurrent)
        await stack.enter_async_context(presence.reporting())
        database = await Database.connect(
            target,
            most_connections=pool_size(settings, role),
            least_connections=OPEN_CONNECTIONS,
            application_name=presence.application_name,
        )
        stack.push_async_callback(database.close)
        await _check_keys(settings.http, role, database)
        service_health = ProcessHealth(started_at=clock.now())
        runtime = await stack.enter_async_context(
            open_runtime(
                settings,
                clock=clock,
                metrics=metrics,
                target=target,
                database=database,
                application_name=presence.application_name,
                last_listing_at=lambda: service_health.last_look_at,
                place="" if embedded is None else embedded.place(),
            )
        )
        engine = build_engine(runtime)
        stack.push_async_callback(engine.keys.note_uses)
        async with database.connection() as connection:
            await engine.gate.start(connection)
        metrics.registry.register(CacheCollector(engine.caches.registry))
        notices = Notifications(target, clock, application_name=presence.application_name)
        engine.caches.listen(notices)
        limits = _limits(settings)
        http_side = build_http_side(engine, role, notices=notices, service_health=service_health, limits=limits)
        workers, observing = [], []
        if role is not Role.API:
            workers = _workers(engine, presence=presence, pause=pause, is_crowded=lambda: service_health.is_crowded)
            notices.subscribe("events", lambda _key: engine.observer.wake())
            notices.subscribe(last_listing.TOPIC, lambda _key: engine.observer.request_listing())
            observing = [BackgroundTask("observer", engine.observer.run)]
        process = Process(
            server=HttpServer(http_side.app, listener, clock=clock, limits=limits),
            workers=workers,
            monitor=DependencyMonitor(
                runtime=runtime,
                embedded=embedded,
                service_health=service_health,
                pause=pause,
                dropped_log_lines=dropped_log_lines,
            ),
            service_health=service_health,
            end_streams=http_side.end_streams,
            background=(
                BackgroundTask("notices", notices.run),
                BackgroundTask("key uses", engine.keys.run),
                BackgroundTask("cache clean-up", engine.caches.registry.clean_up_repeatedly),
                BackgroundTask("memory", partial(return_free_memory, clock, engine.pages.forget_expired)),
                *http_side.background,
                *observing,
            ),
            clock=clock,
        )
        _reduce_garbage_collection()
        await process.run(on_ready)
    log.info("service.stopped")


def _reduce_garbage_collection() -> None:
    """Collect garbage less often, and not among objects made at the start: a create costs 3 % less CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _check_origins(settings: Settings) -> None:
    """Raise SettingsError if every web page could act here: for a program of this machine, or a user of the proxy."""
    http, proxy = settings.http, ProxyLogin.of(settings.proxy_login)
    wide = [origin for origin in http.allowed_origins if "*" in origin or origin == "null"]
    if wide and (http.is_loopback or proxy is not None):
        without = f"HOST={http.host}" if http.is_loopback else "AUTH_PROXY_HEADER"
        raise SettingsError(
            f"ALLOWED_ORIGINS={','.join(wide)} would let every web page use this Corral, because no API key is needed "
            f"with {without}: name each origin, as in https://ops.example"
        )


async def _check_keys(http: HttpSettings, role: Role, database: Database) -> None:
    """Raise SettingsError if other machines could reach the API while there is no key to authenticate them."""
    if http.is_loopback or role is Role.WORKER:
        return
    async with database.connection() as connection:
        in_use = await keys.in_use(connection)
    if not in_use:
        raise SettingsError(
            f"HOST={http.host} can be reached from other machines and there is no API key yet: "
            "make one with `corral keys create NAME --role admin`, or use HOST=127.0.0.1"
        )


def _limits(settings: Settings) -> Limits:
    """As many connections as the file descriptors allow beside jobs and sends."""
    descriptors = fd_limit.take_all()
    return Limits(connections=fd_limit.for_callers(descriptors, jobs=settings.jobs.max_concurrent, sends=SEND_SLOTS))


def pool_size(settings: Settings, role: Role) -> int:
    """
    The most connections of this process's pool; with `OWN_CONNECTIONS` the most sessions it opens.

    As many as jobs and sends run at once: with fewer, a job would hold its place while it waits for a connection.
    """
    for_api = API_CONNECTIONS if role is not Role.WORKER else 0
    for_jobs = settings.jobs.max_concurrent + URGENT_PLACES + SEND_SLOTS if role is not Role.API else 0
    return for_api + for_jobs + SPARE_CONNECTIONS


def _workers(engine: Engine, *, presence: Presence, pause: Pause, is_crowded: Callable[[], bool]) -> list[Worker]:
    """One worker for each pool of jobs; jobs that send may be twice the slots, because some wait for one."""
    runtime = engine.runtime
    concurrency = {JobPool.MAIN: runtime.settings.jobs.max_concurrent, JobPool.WEBHOOKS: 2 * SEND_SLOTS}
    return [
        Worker(
            runtime.database,
            engine.registry.of_pool(pool),
            engine.queue,
            clock=runtime.clock,
            metrics=runtime.metrics,
            concurrency=most,
            pool=pool,
            process_id=presence.id,
            pause=pause,
            is_crowded=is_crowded,
        )
        for pool, most in concurrency.items()
    ]
