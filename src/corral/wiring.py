"""The only file that knows every part: it puts one process together, runs it, and takes it apart again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from litestar.types import ASGIApp

from corral import __version__
from corral.api import app
from corral.api.limits import Limits
from corral.api.server import HttpServer, listen
from corral.api.vitals import Vitals
from corral.clock import Clock, SystemClock
from corral.cloud.simulated import SimulatedProvider
from corral.domain.errors import CloudTransientError, SettingsError, StoreUnavailableError
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
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(listen(settings.http.host, settings.http.port)))
        target, embedded = await stack.enter_async_context(opened_database(settings, clock))
        await migrate_database(target)
        provider = await stack.enter_async_context(_provider(settings, clock))
        database = await Database.connect(target, most_connections=_connections(settings, role))
        stack.push_async_callback(database.close)
        process = _assemble(settings, role, clock, database)
        server = HttpServer(process.app, listener, clock=clock, limits=Limits())
        await _run(process, server, _Watch(process, database, embedded, provider, clock), on_ready)
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


@asynccontextmanager
async def _provider(settings: Settings, clock: Clock) -> AsyncGenerator[SimulatedProvider | None]:
    """The simulator, running for as long as this is open, when there is no key for the real provider."""
    if settings.provider.api_key is not None:
        yield None
        return
    simulated = SimulatedProvider(settings.store.data_dir, clock)
    try:
        await simulated.ensure()
        yield simulated
    finally:
        await simulated.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """The parts of one running process."""

    app: ASGIApp
    vitals: Vitals
    metrics: Metrics
    queue: JobQueue
    worker: Worker | None


def _connections(settings: Settings, role: Role) -> int:
    for_api = API_CONNECTIONS if role is not Role.WORKER else 0
    for_jobs = settings.jobs.max_concurrent if role is not Role.API else 0
    return for_api + for_jobs + SPARE_CONNECTIONS


def _assemble(settings: Settings, role: Role, clock: Clock, database: Database) -> _Process:
    metrics = Metrics()
    vitals = Vitals(started_at=clock.now())
    registry = Registry()
    queue = JobQueue(database, registry)
    registry.add(retention.sweep(queue))
    worker = None
    if role is not Role.API:
        concurrency = settings.jobs.max_concurrent
        worker = Worker(database, registry, queue, clock=clock, metrics=metrics, concurrency=concurrency)
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
    served = app.build(parts, only_watching=role is Role.WORKER)
    return _Process(app=served, vitals=vitals, metrics=metrics, queue=queue, worker=worker)


class _Watch:
    """Looks after what this process depends on, and reports how it fares."""

    def __init__(
        self,
        process: _Process,
        database: Database,
        embedded: EmbeddedServer | None,
        simulated: SimulatedProvider | None,
        clock: Clock,
    ) -> None:
        self._process = process
        self._database = database
        self._embedded = embedded
        self._simulated = simulated
        self._clock = clock

    async def look(self) -> None:
        """Start again what died, and report."""
        await self._look_at_database()
        await self._look_at_provider()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self._clock.sleep(WATCH_SECONDS)
            await self.look()

    async def _look_at_database(self) -> None:
        vitals, metrics = self._process.vitals, self._process.metrics
        if self._embedded is not None and self._embedded.needs_attention():
            with contextlib.suppress(StoreUnavailableError):
                await self._embedded.ensure()
        answers = await self._database.answers()
        match vitals.up.get("database"), answers:
            case None, True:
                log.info("database.ready")
            case False, True:
                log.info("database.regained")
            case ((None | True), False):
                log.warning("database.lost")
            case _:
                pass
        vitals.report("database", up=answers, kind="server" if self._embedded is None else "embedded")
        vitals.report("jobQueue", up=answers)
        metrics.database_up.set(answers)
        if answers:
            with contextlib.suppress(StoreUnavailableError):
                stats = await self._process.queue.stats()
                for status in (JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.FAILED):
                    metrics.jobs_waiting.labels(status.value).set(stats.by_status[status])

    async def _look_at_provider(self) -> None:
        if self._simulated is None:
            return
        if self._simulated.needs_attention():
            with contextlib.suppress(CloudTransientError):
                await self._simulated.ensure()
        up = not self._simulated.needs_attention()
        self._process.vitals.report("novitaApi", up=up, kind="simulator")


async def _run(process: _Process, server: HttpServer, watch: _Watch, on_ready: Callable[[str], None]) -> None:
    """Serve and work until a signal; then stop taking, let end what runs, and leave."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wish in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wish, stop.set)
    await watch.look()
    stopped, watching, serving = (
        asyncio.create_task(coroutine) for coroutine in (stop.wait(), watch.run(), server.serve())
    )
    working = asyncio.create_task(process.worker.run()) if process.worker is not None else None
    ending = [serving, *([working] if working is not None else [])]
    log.info("service.ready", address=server.address)
    on_ready(server.address)
    await asyncio.wait({stopped, watching, *ending}, return_when=asyncio.FIRST_COMPLETED)

    log.info("service.stopping")
    process.vitals.stopping = True
    for wish in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(wish)  # a second signal ends the process at once
    server.stop()
    if process.worker is not None:
        await process.worker.stop()
    await asyncio.gather(*ending)
    for task in (stopped, watching):
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching  # if the watch itself failed, that is why we are here: let it be seen
