"""
Runs one process: serves and works until a signal, monitors its dependencies, and shuts down in order.

`bootstrap.py` builds the parts; this file runs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from corral.api.http.process_health import ProcessHealth
from corral.api.http.server import HttpServer
from corral.base.clock import Clock, SharedClock
from corral.base.log import log
from corral.base.supervision import BackgroundTask, supervise
from corral.domain.errors import CloudTransientError, StoreUnavailableError
from corral.domain.timing import is_observing, iso, observation_limit
from corral.engine.runtime import Runtime
from corral.jobs import pause
from corral.jobs.pause import Pause
from corral.jobs.worker import Worker
from corral.store.installation import last_listing
from corral.store.server.embedded import EmbeddedServer
from corral.store.session import presence
from corral.store.tables import sealed_secrets

CHECK_SECONDS = 1.0
"""How often dependencies are checked; `/health` is at most this much behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The parts of one process, ready to run."""

    server: HttpServer
    workers: Sequence[Worker]
    monitor: DependencyMonitor
    service_health: ProcessHealth
    end_streams: Callable[[], None]
    """Ends the event streams, which would otherwise stay open."""
    background: tuple[BackgroundTask, ...]
    """Further tasks that run until the end."""
    clock: Clock

    async def run(self, on_ready: Callable[[str], None]) -> None:
        """Serve and work until SIGTERM or SIGINT; then accept nothing new, let running work finish, and return."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await self.monitor.check()
        stopped = asyncio.create_task(stop.wait())
        monitor = BackgroundTask("dependency monitor", self.monitor.run)
        behind = [asyncio.create_task(supervise(task, self.clock)) for task in (monitor, *self.background)]
        serving = asyncio.create_task(self.server.serve())
        working = [supervise(BackgroundTask("worker", worker.run), self.clock) for worker in self.workers]
        ending = [serving, *map(asyncio.create_task, working)]
        log.info("service.ready", address=self.server.address)
        on_ready(self.server.address)
        await asyncio.wait({stopped, serving}, return_when=asyncio.FIRST_COMPLETED)

        log.info("service.stopping")
        self.service_health.stopping = True
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)  # a second signal ends the process at once
        self.end_streams()
        self.server.stop()
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        await asyncio.gather(*ending)
        for task in (stopped, *behind):
            task.cancel()
        await asyncio.gather(*behind, return_exceptions=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyMonitor:
    """Checks the dependencies of a process, restarts those it started, and reports their health."""

    runtime: Runtime
    embedded: EmbeddedServer | None
    service_health: ProcessHealth
    pause: Pause = field(default_factory=Pause)
    """Set to whether the processing of jobs is paused."""
    dropped_log_lines: Callable[[], int] = lambda: 0

    async def run(self) -> None:
        """Check once a second, for ever."""
        while True:
            await self.runtime.clock.sleep(CHECK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Restart what died, and report."""
        self.runtime.metrics.log_lines_dropped.inc(self.dropped_log_lines())
        await self._check_database()
        await self._check_provider()

    async def _check_database(self) -> None:
        if self.embedded is not None and self.embedded.needs_attention():
            self._report_database(problem="it is being started again")  # which takes seconds
            with contextlib.suppress(StoreUnavailableError):
                await self.embedded.ensure()
        asked = self.runtime.clock.now()
        seen = await self.runtime.database.probe()
        if seen.at is not None and isinstance(self.runtime.clock, SharedClock):
            self._compare_clocks(self.runtime.clock, asked, seen.at)
        self._report_database(problem=seen.problem)
        if seen.at is None:
            return
        try:
            await self._check_work()
        except StoreUnavailableError as error:
            # The probe is the smallest statement: a database that answers no other cannot be used.
            self._report_database(problem=error.message)
        except Exception as error:
            # What was last reported of workers and observations may no longer be true. The error is logged where this
            # task is supervised.
            self._report_database(problem=f"its state cannot be read: {error!r}")
            raise

    async def _check_work(self) -> None:
        """Report whether any process takes jobs and observes the provider."""
        async with self.runtime.database.connection() as connection:
            last, workers = await last_listing.last(connection), await presence.workers_alive(connection)
            paused, keys_needed = await pause.read(connection), await sealed_secrets.keys_needed(connection)
        self.pause.note(paused)
        self.service_health.report("jobQueue", up=True, paused=paused.is_paused, pausedAt=iso(paused.at))
        self.runtime.metrics.jobs_paused.set(paused.is_paused)
        self.service_health.last_look_at = last.at
        self.service_health.report("workers", up=workers > 0, alive=workers)
        problem = self.runtime.secret_key.problem(keys_needed)
        self.service_health.report("secretKey", up=problem is None, problem=problem)
        every = timedelta(seconds=self.runtime.settings.instances.poll_interval_seconds)
        limit = observation_limit(every, last.every)
        self.service_health.report(
            "observation",
            up=is_observing(last.age, self.runtime.clock.now() - self.service_health.started_at, limit),
            lastAt=iso(last.at),
            ageSeconds=None if last.age is None else round(last.age.total_seconds(), 3),
            limitSeconds=limit.total_seconds(),
        )

    def _compare_clocks(self, clock: SharedClock, asked: datetime, reference: datetime) -> None:
        if clock.compare(asked=asked, reference=reference, answered=clock.now()):
            seconds = round(clock.ahead.total_seconds(), 1)
            log.warning("clock.corrected", ahead_of_database_seconds=seconds)

    def _clock_notes(self) -> dict[str, object]:
        if not isinstance(self.runtime.clock, SharedClock) or not self.runtime.clock.ahead:
            return {}
        return {"clockAheadSeconds": round(self.runtime.clock.ahead.total_seconds(), 1)}

    def _report_database(self, *, problem: str | None) -> None:
        up = problem is None
        match self.service_health.up.get("database"), up:
            case None, True:
                log.info("database.ready")
            case False, True:
                log.info("database.regained")
            case ((None | True), False):
                log.warning("database.lost", problem=problem)
            case _:
                pass
        notes = {**({} if problem is None else {"problem": problem}), **self._clock_notes()}
        self.service_health.report("database", up=up, kind="server" if self.embedded is None else "embedded", **notes)
        self.service_health.report("jobQueue", up=up)
        self.runtime.metrics.database_up.set(up)

    async def _check_provider(self) -> None:
        if self.runtime.simulated is not None and self.runtime.simulated.needs_attention():
            with contextlib.suppress(CloudTransientError):
                await self.runtime.simulated.ensure()
        seen = self.runtime.reachability()
        self.service_health.report("cache", up=True)
        self.service_health.report(
            "novitaApi",
            up=seen.is_reachable,
            kind="novita" if self.runtime.simulated is None else "simulator",
            breaker=seen.breaker.value,
            callsPerMinute=seen.calls_per_minute,
            lastAnswerAt=iso(seen.last_answer_at),
            lastFailureAt=iso(seen.last_failure_at),
            lastFailure=seen.last_failure,
        )
