"""
The engine with every outside step in the test's hands: thousands of histories a minute, on the real database.

Unlike in `stepped_engine.py` there are no sockets: the simulator is called directly (`direct.py`), endpoints are as
healthy as the test says, and the queue's rows are taken and run here as a worker would. A killed process loses its
memory; its job is taken over later. One `FaultEnvironment` (a pool) serves many engines, one after another.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from corral.base.metrics import Metrics
from corral.base.settings.settings import Settings
from corral.cloud.novita.client import NovitaCloud
from corral.domain.errors import CloudError, CloudTransientError, CorralError, GoalRefusedError, StoreUnavailableError
from corral.domain.health.checks import HealthCheckSpec, ProbeFailure
from corral.domain.health.network_faults import FaultCategory
from corral.domain.idempotency import KeyRow
from corral.domain.instance import CreateRequest, Instance, InstanceId
from corral.domain.leases.lease import Lease
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.lifecycle.creation import may_be_created
from corral.domain.lifecycle.phases import SETTLED, Goal, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.observation.sighting import Endpoint
from corral.domain.operation import OperationKind
from corral.domain.timing import delay
from corral.engine.build import build_engine
from corral.engine.commands.create import CreatedInstance
from corral.engine.engine import Engine
from corral.engine.reconcile.grouped_writes import GroupedWrites
from corral.engine.reconcile.instance_locks import InstanceLocks
from corral.engine.reconcile.reconciler import Reconciler
from corral.health.probe import Prober
from corral.jobs.execution import FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, OUTAGE_PAUSE_SECONDS
from corral.jobs.registry import Handler, JobId, JobPool, JobRun, RequeueError
from corral.jobs.worker import HEARTBEAT_TIMEOUT
from corral.store.installation import installation_id
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import instances, sealed_secrets
from novitasim.server.serving import Options, build
from novitasim.world.billing import ledger
from novitasim.world.instance import Instance as Machine
from support.clock.clocks import SteppedClock
from support.database.faulty_database import FaultyDatabase
from support.engines.audit_lines import CONTEXT
from support.engines.engine_steps import REQUEST, fetch_jobs, look_up_changing, secrets_of, store_create
from support.engines.reservation_judge import ReservationJudge
from support.engines.runtime import idle_runtime, settings_of
from support.histories.direct import DirectExchange
from support.histories.script import Killed, Mishap, Script

OURS = r"corral-[0-9a-f]{6}-(inst-[0-9a-z]+)-\d+"
"""Groups provider names into create requests."""
TIMES: dict[str, object] = {
    "boot_seconds": 2,
    "pull_seconds": 3,
    "start_seconds": 2,
    "stop_seconds": 2,
    "restart_seconds": 2,
    "remove_seconds": 2,
}
HELD_BACK_LOOKS = 5
PAUSED_STEPS = 10
"""Of 20 s each: longer than a doubt lasts, and the next attempt is made."""
LONGEST_DEADLINE_SECONDS = 600 * 60.0
_LONGEST_START_MS = str(int(LONGEST_DEADLINE_SECONDS * 1000))
SWEEP = JobRun(id=JobId(1), type="sweep_orphans", payload={}, attempt=1)
_TABLES = (
    "corral_delivery_attempts",
    "corral_deliveries",
    "corral_operations",
    "corral_instances",
    "corral_secrets",
    "corral_idle_samples",
    "corral_usage",
    "corral_events",
    "corral_ready_times",
    "corral_audit",
    "corral_shortages",
    "corral_orphans",
    "corral_budgets",
    "corral_idempotency",
    "corral_pgqueuer",
    "corral_pgqueuer_log",
    "corral_finished_jobs",
)
_CUT_LOCKS = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_CLEAN = ";".join(
    [*(f"DELETE FROM {table}" for table in _TABLES), "UPDATE corral_last_look SET confirmed_at = NULL"]  # noqa: S608
)


@dataclass(kw_only=True)
class FaultEnvironment:
    """What outlives a history: the pool, and how the engine is made."""

    database: Database
    target: DatabaseTarget
    installation: str
    settings: Settings = field(default_factory=lambda: settings_of(INSTANCE_STARTUP_MAX_WAIT_TIME=_LONGEST_START_MS))
    policy: Policy = field(default_factory=Policy)
    metrics: Metrics = field(default_factory=Metrics)
    """Shared by all histories, because making the metrics takes a sixth of the time of a history."""
    make_cloud: Callable[[DirectExchange], NovitaCloud] = NovitaCloud
    shares_clock: bool = False
    """Whether the provider's clock shows the same time; else it is years behind, and its times mean nothing here."""

    @classmethod
    async def open(cls, target: DatabaseTarget, **choices: Any) -> FaultEnvironment:
        database = await Database.connect(target, most_connections=6)
        async with database.connection() as connection:
            installation = await installation_id.load(connection)
            # A history is forgotten after milliseconds: nothing of it needs to survive a crash of the server.
            for table in _TABLES:
                await connection.execute(f"ALTER TABLE {table} SET UNLOGGED")
        return cls(database=database, target=target, installation=installation, **choices)

    async def engine(self, **quirks: object) -> FaultEngine:
        """A new history: nothing remembered, nothing at the provider."""
        async with self.database.connection() as connection:
            await connection.execute(_CLEAN)
        engine = FaultEngine(self, **quirks)
        await engine.begin()
        return engine

    async def close(self) -> None:
        await self.database.close()


@dataclass(frozen=True, slots=True)
class Pending:
    """A job that waits for its time."""

    at: float
    name: str
    payload: dict[str, Any]
    attempt: int = 1


class FaultEngine:
    """One history of the engine."""

    def __init__(self, environment: FaultEnvironment, **quirks: object) -> None:
        self.environment = environment
        self.script = Script(meanwhile=self._meanwhile)
        self.simulator = build(Options(clock="stepped", quirks=TIMES | quirks))
        self.clock = SteppedClock()
        if environment.shares_clock:
            self.clock = SteppedClock(datetime.fromtimestamp(self.simulator.now(), UTC))
        self.exchange = DirectExchange(self.simulator, self.clock, self.script, self._meanwhile)
        self.database = FaultyDatabase(environment.database.pool, self.script)
        self.pending: list[Pending] = []
        self.requested: list[InstanceId] = []
        self.given_up: list[Pending] = []
        """Jobs without retries left."""
        self.deliver_twice = False
        """Whether every job is run a second time, as after a death between its end and the record of it."""
        self.prober = _ObedientProber(self.clock)
        self.with_secrets: list[InstanceId] = []
        self.reservations = ReservationJudge()
        self.secret_trouble: list[str] = []
        """What was wrong with the secrets of an instance after a step."""
        self._numbers = itertools.count(1)
        self._start_process()

    async def begin(self) -> None:
        """The first process has started and compared a listing, so that creates may be sent."""
        async with self.environment.database.connection() as connection:
            await self.parts.gate.start(connection)
        with self.script.silently():
            await self.observer.list_account()

    def _start_process(self) -> None:
        """Build everything that a process holds."""
        self.script.is_killed = False
        environment, clock = self.environment, self.clock
        runtime = idle_runtime(
            self.database,
            environment.make_cloud(self.exchange),
            clock,
            settings=environment.settings,
            policy=environment.policy,
            metrics=environment.metrics,
            target=environment.target,
            installation=environment.installation,
            prober=self.prober,
            new_id=lambda: f"x{next(self._numbers)}",
        )
        self.parts = build_engine(runtime)
        self.observer = self.parts.observer

    # What a user does.

    async def request_create(
        self, order: CreateRequest = REQUEST, *, minutes: float = 600, lease: Lease | None = None
    ) -> InstanceId:
        with self.script.silently():
            instance_id = await store_create(self.parts, next(self._numbers), order, minutes=minutes, lease=lease)
        self.requested.append(instance_id)
        if order.secret_names:
            self.with_secrets.append(instance_id)
        return instance_id

    async def repeated(self, create: Callable[[Engine], Awaitable[CreatedInstance | KeyRow]]) -> InstanceId:
        """Send a create with a key, as a client does, until it is answered; a process that dies is started again."""
        while True:
            self._numbers = itertools.count(1)  # what was not committed had no id
            try:
                await create(self.parts)
                break
            except (Killed, asyncio.CancelledError):
                self._start_process()
            except (CloudError, StoreUnavailableError):
                continue
        async with self.environment.database.connection() as connection:
            (made,) = await connection.fetch("SELECT id FROM corral_instances")
        self.database.has_new_jobs = True
        self.requested.append(InstanceId(made["id"]))
        return self.requested[-1]

    async def ask(self, kind: OperationKind, instance_id: InstanceId) -> bool:
        """Ask for something to be done; False when it is refused."""
        with self.script.silently():
            try:
                await self.parts.change.record(kind, instance_id, CommandOptions(), CONTEXT)
            except GoalRefusedError:
                return False
        return True

    async def request_delete(self, instance_id: InstanceId) -> None:
        await self.ask(OperationKind.DELETE, instance_id)

    # What the service does.

    async def work(self) -> None:
        """Run every job that is due, until none is or the process dies."""
        while True:
            await self._fetch()
            now = self.clock.monotonic()
            due = [job for job in self.pending if job.at <= now]
            if not due:
                return
            self.pending = [job for job in self.pending if job.at > now]
            for place, job in enumerate(due):
                if not await self._run(job) or (self.deliver_twice and not await self._run(job)):
                    self.pending += due[place + 1 :]
                    return

    async def look(self) -> None:
        """One look of the observer, and its sweep of reminders."""
        try:
            await self.observer.sweep()
            await self.observer.list_account()
        except StoreUnavailableError:
            pass
        except Killed:
            self._start_process()

    async def peek(self) -> None:
        """Looks of the observer at those that move, by their ids, as when a listing takes long."""
        try:
            await self.observer.sweep()
            for _ in self.requested:
                await look_up_changing(self.observer)
        except StoreUnavailableError:
            pass
        except Killed:
            self._start_process()

    async def double(self, instance_id: InstanceId) -> None:
        """Two needless jobs for the same instance, one after the other."""
        job = Pending(self.clock.monotonic(), "monitor_instance", {"instanceId": instance_id})
        if await self._run(job):
            await self._run(job)

    async def step(self, seconds: float = 2.0, *, is_long: bool = False) -> None:
        """What a running service does in a while; *is_long*: in which a listing of all does not come to its end."""
        self.advance(seconds)
        await self.work()
        await (self.peek() if is_long else self.look())
        await self.work()
        await self._check_secrets()
        async with self.environment.database.connection() as connection:
            await self.reservations.look(connection, self.requested)

    async def settle(self, *, most: int = 60) -> None:
        """Let it alone until nothing moves any more."""
        self.script.write([])
        for patience in (most, 20):
            for _ in range(patience):
                if await self.is_at_rest():
                    return
                await self.step(10.0)
                await self.parts.orphan_sweep.sweep(SWEEP)
            self.advance(LONGEST_DEADLINE_SECONDS)  # what waits for its deadline may have it
        raise AssertionError(f"it never comes to rest: {self.pending}, {await self.all()}")

    async def is_at_rest(self) -> bool:
        if self.pending or self.exchange.late:
            return False
        found = await self.all()
        if any(i.phase not in SETTLED or (i.goal is Goal.GONE and i.phase is not Phase.TERMINATED) for i in found):
            return False
        known = {i.provider_id for i in found if i.goal is not Goal.GONE}
        return all(machine.id in known for machine in self.machines())

    def advance(self, seconds: float) -> None:
        """Let time pass, here and at the provider; what is late arrives on its way."""
        for at in sorted({at for at, _ in self.exchange.late}):
            if at <= self.clock.monotonic() + seconds:
                ahead = max(0.0, at - self.clock.monotonic())
                self._advance(ahead)
                seconds -= ahead
        self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.simulator.advance(seconds)
        self.exchange.arrive()

    # What a judge asks.

    async def get(self, instance_id: InstanceId) -> Instance:
        async with self.environment.database.connection() as connection:
            found = await instances.load(connection, instance_id)
        assert found is not None
        return found

    async def all(self) -> list[Instance]:
        async with self.environment.database.connection() as connection:
            return list((await instances.by_ids(connection, self.requested, [])).values())

    async def status_changes(self) -> dict[str, list[tuple[str | None, str]]]:
        """Of each instance, its published changes: from which status to which."""
        async with self.environment.database.connection() as connection:
            rows = await connection.fetch(
                "SELECT instance_id, previous_status, status FROM corral_events"
                " WHERE previous_status IS DISTINCT FROM status AND type NOT LIKE 'instance.startup%' ORDER BY id"
            )
        found: dict[str, list[tuple[str | None, str]]] = {}
        for row in rows:
            found.setdefault(row["instance_id"], []).append((row["previous_status"], row["status"]))
        return found

    def machines(self, instance_id: str = "") -> list[Machine]:
        """What exists at the provider for one create request, or for all; also what it hides at present."""
        now, part = self.simulator.now(), f"-{instance_id.replace('_', '-')}-" if instance_id else ""
        return [
            machine
            for machine in self.simulator.world.instances.values()
            if part in machine.order.name and machine.removed_at() > now and not machine.vanished(now)
        ]

    def ledger(self) -> ledger.Ledger:
        return self.simulator.ledger(OURS)

    # Inside.

    async def _check_secrets(self) -> None:
        """Every machine has the secrets of its request, and these are stored as long as a create call may follow."""
        for instance_id in self.with_secrets:
            async with self.environment.database.connection() as connection:
                instance = await instances.load(connection, instance_id)
                is_stored = await sealed_secrets.load(connection, instance_id) is not None
            assert instance is not None
            if is_stored is not may_be_created(instance):
                self.secret_trouble.append(f"{instance.id} is {instance.phase}, its secrets are stored: {is_stored}")
            part, wanted = f"-{instance.id.replace('_', '-')}-", secrets_of(instance)
            made = [each for each in self.simulator.world.instances.values() if part in each.order.name]
            for machine in made:
                has = {env.key: env.value for env in machine.order.envs}
                if not wanted.items() <= has.items():
                    self.secret_trouble.append(f"{machine.order.name} was made without its secrets")

    async def _fetch(self) -> None:
        if not self.database.has_new_jobs:
            return
        self.database.has_new_jobs = False
        now = self.clock.monotonic()
        self.pending += [Pending(now, job.name, job.payload) for job in await fetch_jobs(self.environment.database)]

    async def _run(self, job: Pending, handler: Handler | None = None) -> bool:
        """Run one job as a worker does, by *handler* or its own; False when the process died of it."""
        job_type = self.parts.registry.get(job.name)
        assert job_type is not None
        if job_type.pool is JobPool.WEBHOOKS:
            return True  # nothing is sent: the receivers of these tests do not exist
        try:
            run = JobRun(id=JobId(1), type=job.name, payload=job.payload, attempt=job.attempt)
            await (handler or job_type.handler)(run)
        except (Killed, asyncio.CancelledError):
            if self.script.is_killed:
                self._start_process()
                self._later(job, HEARTBEAT_TIMEOUT.total_seconds())
                return False
            self._later(job, 0.0)
        except RequeueError as again:
            self._later(job, again.after.total_seconds())
        except (CloudTransientError, StoreUnavailableError) as error:
            pause = error.retry_after_seconds
            self._later(job, OUTAGE_PAUSE_SECONDS if pause is None else pause)
        except CorralError:
            if job.attempt > job_type.retries:
                self.given_up.append(job)
            else:
                pause = delay(job.attempt, first=FIRST_RETRY_SECONDS, most=LAST_RETRY_SECONDS)
                self._later(replace(job, attempt=job.attempt + 1), pause)
        return True

    def _later(self, job: Pending, seconds: float) -> None:
        # A millisecond at least, or a job that asks for "at once" would never let time pass.
        self.pending.append(replace(job, at=self.clock.monotonic() + max(seconds, 0.001)))

    async def _meanwhile(self, mishap: Mishap) -> None:
        """What others do while a call is under way: their steps are not the script's."""
        with self.script.silently():
            match mishap:
                case Mishap.PAUSED:
                    await self._cut_locks()
                    for _ in range(PAUSED_STEPS):
                        self.advance(20.0)
                        await self._pass_all()
                        await self.observer.list_account()
                case Mishap.HELD_BACK | Mishap.HELD_BACK_KILLED | Mishap.WAITED:
                    for _ in range(HELD_BACK_LOOKS):
                        self.advance(20.0)
                        await self.observer.list_account()
                case Mishap.SEEN_MEANWHILE:
                    self.advance(3.0)
                    await self.observer.list_account()
                    await self._pass_all()
                case Mishap.UNWISHED_MEANWHILE | Mishap.DELETED_WAITING:
                    for instance_id in self.requested:
                        await self.request_delete(instance_id)
                case _:
                    await self._pass_all()

    async def _cut_locks(self) -> None:
        """End every session that holds the lock of an instance, as a server does when its client does not answer."""
        async with self.environment.database.connection() as connection:
            await connection.execute(_CUT_LOCKS)

    async def _pass_all(self) -> None:
        """Another worker's passes; over an instance that is being passed over they find it locked."""
        reconcile = self._other_worker().reconcile
        for instance_id in self.requested:
            job = Pending(self.clock.monotonic(), "monitor_instance", {"instanceId": instance_id})
            await self._run(job, reconcile)

    def _other_worker(self) -> Reconciler:
        """A reconciler as of another process: with locks, lookups and groups of writes of its own."""
        first = self.parts.reconciler
        recorder = replace(first.recorder, grouped=GroupedWrites(database=self.database))
        create_step = first.steps.create_step
        create_step = replace(create_step, recorder=recorder, unmade=replace(create_step.unmade))
        steps = replace(first.steps, create_step=create_step, recorder=recorder)
        leases = replace(first.leases, recorder=recorder)
        return replace(first, steps=steps, recorder=recorder, locks=InstanceLocks(self.database), leases=leases)


class _ObedientProber(Prober):
    """Endpoints that are as healthy as the test says, without a socket."""

    def __init__(self, clock: SteppedClock) -> None:
        super().__init__(session=cast("Any", None), clock=clock, policy=cast("Any", None), resolver=cast("Any", None))
        self.healthy = True

    async def _failure(self, _endpoint: Endpoint, _spec: HealthCheckSpec) -> ProbeFailure | None:
        if self.healthy:
            return None
        return ProbeFailure(category=FaultCategory.NETWORK_UNREACHABLE, message="no response")
