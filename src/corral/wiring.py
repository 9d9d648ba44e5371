"""The only file that knows every part: it puts one process together, runs it, and takes it apart again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from litestar.types import ASGIApp

from corral import __version__
from corral.api import app
from corral.api.limits import Limits
from corral.api.server import HttpServer, listen
from corral.api.vitals import Vitals
from corral.clock import Clock, SystemClock
from corral.domain.errors import SettingsError, StoreUnavailableError
from corral.jobs import retention, tables
from corral.jobs.queue import JobQueue, JobStatus
from corral.jobs.registry import Registry
from corral.jobs.worker import Worker
from corral.settings import Settings
from corral.store.database import Database
from corral.store.embedded import EmbeddedServer
from corral.store.migrate import Migration, migrate
from corral.store.target import DatabaseTarget
from corral.telemetry import Metrics, log

WATCH_SECONDS = 1.0
"""How often the database's health is looked at; a probe of our own `/health` is at most this much behind."""
API_CONNECTIONS = 10
SPARE_CONNECTIONS = 4
"""Beside one for each running job: the queue's listener, its bookkeeping, and the watch."""


class Role(StrEnum):
    """What a process does."""

    ALL = "all"
    API = "api"
    WORKER = "worker"


async def serve(settings: Settings, role: Role, *, on_ready: Callable[[str], None]) -> None:
    """Run one process of Corral until SIGTERM or SIGINT; *on_ready* is told the address once requests are served."""
    clock = SystemClock()
    if not settings.http.is_loopback:
        raise SettingsError(
            f"HOST={settings.http.host} can be reached from other machines, and this release has no API keys yet: "
            "use HOST=127.0.0.1, and a tunnel or an authenticating proxy to reach it from elsewhere"
        )
    log.info("service.starting", version=__version__, role=role.value)
    listener = listen(settings.http.host, settings.http.port)
    async with opened_database(settings, clock) as (target, embedded):
        await migrate_database(target)
        connections = _connections(settings, role)
        database = await Database.connect(target, most_connections=connections)
        try:
            process = _assemble(settings, role, clock, database, embedded)
            server = HttpServer(process.app, listener, clock=clock, limits=Limits())
            await _run(process, server, on_ready)
        finally:
            await database.close()
    log.info("service.stopped")


async def migrate_database(target: DatabaseTarget) -> list[Migration]:
    """Bring the schema up to date; answers what was applied."""
    return await migrate(target, first=tables.install)


@asynccontextmanager
async def opened_database(
    settings: Settings, clock: Clock
) -> AsyncGenerator[tuple[DatabaseTarget, EmbeddedServer | None]]:
    """The database these settings name: a server's address, or an embedded one for as long as this is open."""
    url = settings.store.database_url
    if url is not None:
        yield DatabaseTarget(url=url.get_secret_value()), None
        return
    embedded = EmbeddedServer(settings.store.data_dir, clock)
    try:
        yield await embedded.ensure(), embedded
    finally:
        await embedded.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """The parts of one running process."""

    app: ASGIApp
    vitals: Vitals
    worker: Worker | None
    watch: Callable[[], AsyncGenerator[None]]


def _connections(settings: Settings, role: Role) -> int:
    for_api = API_CONNECTIONS if role is not Role.WORKER else 0
    for_jobs = settings.jobs.max_concurrent if role is not Role.API else 0
    return for_api + for_jobs + SPARE_CONNECTIONS


def _assemble(
    settings: Settings, role: Role, clock: Clock, database: Database, embedded: EmbeddedServer | None
) -> _Process:
    metrics = Metrics()
    vitals = Vitals(started_at=clock.now())
    registry = Registry()
    queue = JobQueue(database, registry)
    registry.add(retention.sweep(queue))
    worker = None
    if role is not Role.API:
        worker = Worker(
            database, registry, queue, clock=clock, metrics=metrics, concurrency=settings.jobs.max_concurrent
        )
    parts = app.Parts(
        clock=clock,
        metrics=metrics,
        vitals=vitals,
        queue=queue,
        is_stopping=lambda: vitals.stopping,
        local_only=settings.http.is_loopback,
        allowed_origins=settings.http.allowed_origins,
        limits=Limits(),
    )

    async def watch() -> AsyncGenerator[None]:
        while True:
            await _look_at_database(database, embedded, queue, vitals, metrics)
            yield
            await clock.sleep(WATCH_SECONDS)

    return _Process(app=app.build(parts, only_watching=role is Role.WORKER), vitals=vitals, worker=worker, watch=watch)


async def _look_at_database(
    database: Database, embedded: EmbeddedServer | None, queue: JobQueue, vitals: Vitals, metrics: Metrics
) -> None:
    """Report whether the database answers; an embedded one that died is started again."""
    if embedded is not None and embedded.needs_attention():
        with contextlib.suppress(StoreUnavailableError):
            await embedded.ensure()
    answers = await database.answers()
    match vitals.up.get("database"), answers:
        case None, True:
            log.info("database.ready")
        case False, True:
            log.info("database.regained")
        case ((None | True), False):
            log.warning("database.lost")
        case _:
            pass
    vitals.report("database", up=answers)
    vitals.report("jobQueue", up=answers)
    metrics.database_up.set(answers)
    if answers:
        with contextlib.suppress(StoreUnavailableError):
            stats = await queue.stats()
            for status in (JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.FAILED):
                metrics.jobs_waiting.labels(status.value).set(stats.by_status[status])


async def _run(process: _Process, server: HttpServer, on_ready: Callable[[str], None]) -> None:
    """Serve and work until a signal; then stop taking, let end what runs, and leave."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wish in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wish, stop.set)
    watch = process.watch()
    await anext(watch)
    watching = asyncio.create_task(_exhaust(watch))
    serving = asyncio.create_task(server.serve())
    working = asyncio.create_task(process.worker.run()) if process.worker is not None else None
    log.info("service.ready", address=server.address)
    on_ready(server.address)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({t for t in (stopped, serving, working) if t is not None}, return_when=asyncio.FIRST_COMPLETED)

    log.info("service.stopping")
    process.vitals.stopping = True
    for wish in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(wish)  # a second signal ends the process at once
    server.stop()
    if process.worker is not None:
        await process.worker.stop()
    stopped.cancel()
    watching.cancel()
    await asyncio.gather(serving, *([working] if working is not None else []))


async def _exhaust(steps: AsyncGenerator[None]) -> None:
    async for _ in steps:
        pass
