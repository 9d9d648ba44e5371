"""
The whole engine over the real database and a simulated provider, stepped by the test: no worker, no waiting.

Jobs are taken from the real queue and run here, in order; a job that asks to be called again is called when the stepped
clock says so. One step is what two seconds of a running service do.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import SecretStr

from corral.base.metrics import Metrics
from corral.cloud.novita.client import NovitaCloud
from corral.cloud.novita.http import HttpExchange
from corral.cloud.port import Cloud
from corral.domain.errors import CloudTransientError
from corral.domain.instance import CreateRequest, Instance, InstanceId
from corral.domain.leases.lease import Lease
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.lifecycle.phases import Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.operation import OperationKind
from corral.engine.build import build_engine
from corral.engine.commands.change import AcceptedCommand, ChangeInstance
from corral.engine.engine import Engine
from corral.engine.events.publisher import EventPublisher
from corral.engine.observe.observer import Observer
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobId, JobPool, JobRun, RequeueError
from corral.store.installation import continuity, last_listing
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import instances
from novitasim.testing import Simulated, start_simulator
from support.clock.clocks import SteppedClock
from support.engines.audit_lines import CONTEXT
from support.engines.engine_steps import REQUEST, fetch_jobs, store_create
from support.engines.runtime import open_test_runtime
from support.provider.garbling import Garbler

OUTAGE_PAUSE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One that waits until *at*."""

    at: float
    name: str
    payload: dict[str, Any]
    first: bool


@dataclass(kw_only=True)
class SteppedEngine:
    """The engine, in the hands of a test."""

    sim: Simulated
    parts: Engine
    clock: SteppedClock
    numbers: Iterator[int]
    pending: list[_Job] = field(default_factory=list)

    @property
    def database(self) -> Database:
        return self.parts.runtime.database

    @property
    def cloud(self) -> Cloud:
        return self.parts.runtime.cloud

    @property
    def installation(self) -> str:
        return self.parts.runtime.installation

    @property
    def metrics(self) -> Metrics:
        return self.parts.runtime.metrics

    @property
    def queue(self) -> JobQueue:
        return self.parts.queue

    @property
    def event_publisher(self) -> EventPublisher:
        return self.parts.event_publisher

    @property
    def observer(self) -> Observer:
        return self.parts.observer

    @property
    def changes(self) -> ChangeInstance:
        return self.parts.change

    async def request_create(
        self, order: CreateRequest = REQUEST, *, minutes: float = 20, lease: Lease | None = None
    ) -> InstanceId:
        return await store_create(self.parts, next(self.numbers), order, minutes=minutes, lease=lease)

    async def ask(
        self, kind: OperationKind, instance_id: InstanceId, terms: CommandOptions | None = None
    ) -> AcceptedCommand:
        accepted = await self.changes.record(kind, instance_id, terms or CommandOptions(), CONTEXT)
        assert isinstance(accepted, AcceptedCommand)
        return accepted

    async def request_delete(self, instance_id: InstanceId) -> None:
        await self.ask(OperationKind.DELETE, instance_id)

    async def get(self, instance_id: InstanceId) -> Instance:
        async with self.database.connection() as connection:
            found = await instances.load(connection, instance_id)
        assert found is not None
        return found

    async def phase(self, instance_id: InstanceId) -> Phase:
        return (await self.get(instance_id)).phase

    async def step(self, seconds: float = 2.0) -> None:
        """Let time pass, look at the provider, and do what is due."""
        self.clock.advance(seconds)
        self.sim.advance(seconds)
        await self.work()
        await self.observer.sweep()
        await self.observer.list_account()
        await self.work()

    async def steps(self, count: int, seconds: float = 2.0) -> None:
        for _ in range(count):
            await self.step(seconds)

    async def until(self, instance_id: InstanceId, phase: Phase, *, steps: int = 60, seconds: float = 2.0) -> Instance:
        """Step until the instance is in *phase*."""
        await self.work()
        for _ in range(steps):
            if (found := await self.get(instance_id)).phase is phase:
                return found
            await self.step(seconds)
        raise AssertionError(f"{instance_id} is {(await self.get(instance_id)).phase}, not {phase}")

    async def work(self) -> None:
        """Run every job that is due, until none is."""
        while True:
            await self._fetch()
            now = self.clock.monotonic()
            due = [job for job in self.pending if job.at <= now]
            if not due:
                return
            self.pending = [job for job in self.pending if job.at > now]
            for job in due:
                await self._run(job)

    async def _fetch(self) -> None:
        now = self.clock.monotonic()
        self.pending += [
            _Job(at=now, name=job.name, payload=job.payload, first=job.is_first)
            for job in await fetch_jobs(self.database)
        ]

    async def _run(self, job: _Job) -> None:
        job_type = self.parts.registry.get(job.name)
        assert job_type is not None
        if job_type.pool is JobPool.WEBHOOKS:
            return  # nothing is sent: the receivers of these tests do not exist
        later: float | None = None
        try:
            run = JobRun(id=JobId(1), type=job.name, payload=job.payload, attempt=1, first=job.first)
            await job_type.handler(run)
        except RequeueError as again:
            later = again.after.total_seconds()
        except CloudTransientError as error:
            later = error.retry_after_seconds or OUTAGE_PAUSE
        if later is not None:
            # A millisecond at least, or a job that asks for "at once" would never let time pass.
            self.pending.append(replace(job, at=self.clock.monotonic() + max(later, 0.001), first=False))


@asynccontextmanager
async def stepped_engine(
    database: Database,
    target: DatabaseTarget,
    *,
    after: SteppedEngine | None = None,
    through: Garbler | None = None,
    policy: Policy | None = None,
    listed: bool = True,
    **quirks: Any,
) -> AsyncGenerator[SteppedEngine]:
    """
    An engine over *database* and a simulator with these *quirks*; or over the world and time of the one *after*.

    What the provider says comes *through* a garbler, if there is one. With *listed*, creates may be sent at once, as if
    the database was in use before and a listing had been compared since the start.
    """
    clock = SteppedClock() if after is None else after.clock
    async with start_simulator(**quirks) if after is None else nullcontext(after.sim) as sim:
        key, base_url = SecretStr("key"), sim.base_url
        if through is not None:
            through.to, base_url = sim.base_url, through.address
        async with (
            HttpExchange(base_url=base_url, api_key=key, timeout_seconds=5, clock=clock) as exchange,
            open_test_runtime(database, target, NovitaCloud(exchange), clock, policy=policy or Policy()) as runtime,
        ):
            parts = build_engine(runtime)
            async with database.connection() as connection:
                if listed:
                    server = (await last_listing.listings(connection)).server
                    await continuity.record(connection, await continuity.identity(connection, ""), server)
                await parts.gate.start(connection)
                if listed:
                    await last_listing.compared(connection, await last_listing.begin(connection))
            yield SteppedEngine(
                sim=sim, parts=parts, clock=clock, numbers=itertools.count(1) if after is None else after.numbers
            )


@asynccontextmanager
async def observing(engine: SteppedEngine) -> AsyncGenerator[None]:
    """The observer of *engine* runs, as in a service."""
    running = asyncio.create_task(engine.observer.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
