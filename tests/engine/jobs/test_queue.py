"""Jobs, on the real queue and the real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest
from support.clock.waiting import until
from support.engines.audit_lines import LINE

from corral.base.clock import SystemClock
from corral.base.metrics import Metrics
from corral.domain.errors import CloudTransientError
from corral.jobs.driver import CHANNEL, QUEUE, WAKE, ListenFirstDriver
from corral.jobs.queue import JobQueue, JobStatus, NewJob
from corral.jobs.registry import Handler, JobRun, JobType, Priority, Registry, RequeueError
from corral.jobs.worker import Worker
from corral.store.session.database import Database


class CommandEnv:
    """A registry, a queue and workers over one test's database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.registry = Registry()
        self.queue = JobQueue(database, self.registry)

    def handles(self, name: str, handler: Handler, *, retries: int = 3, priority: Priority = Priority.NORMAL) -> None:
        self.registry.add(JobType(name=name, handler=handler, retries=retries, priority=priority))

    async def enqueue(self, name: str, **payload: object) -> int:
        async with self.database.transaction() as connection:
            ((job_id,),) = await self.queue.add([NewJob(type=name, payload=payload)]).run(connection)
        return int(job_id)

    @asynccontextmanager
    async def worker(
        self, concurrency: int = 4, *, grace: float = 10.0, dequeue_timeout: timedelta = timedelta(seconds=1)
    ) -> AsyncGenerator[Worker]:
        worker = Worker(
            self.database,
            self.registry,
            self.queue,
            clock=SystemClock(),
            metrics=Metrics(),
            concurrency=concurrency,
            heartbeat_timeout=timedelta(seconds=2),
            dequeue_timeout=dequeue_timeout,
        )
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            await worker.stop(grace)
            await task

    async def has(self, status: JobStatus, count: int) -> bool:
        return (await self.queue.stats()).by_status[status] == count


@pytest.fixture
def env(database: Database) -> CommandEnv:
    return CommandEnv(database)


def recorder(runs: list[JobRun]) -> Handler:
    async def handler(run: JobRun) -> None:
        runs.append(run)

    return handler


async def test_a_job_of_a_committed_transaction_runs_without_polling(env: CommandEnv) -> None:
    """A worker that would look by itself only in an hour is woken by the commit."""
    runs: list[JobRun] = []
    env.handles("probe", recorder(runs))

    async with env.worker(dequeue_timeout=timedelta(hours=1)):
        await env.enqueue("probe", n=0)
        await until(lambda: len(runs) == 1)
        await env.enqueue("probe", n=1)
        await until(lambda: len(runs) == 2)

    assert [run.payload["n"] for run in runs] == [0, 1]


async def test_a_job_of_a_rolled_back_transaction_never_exists(env: CommandEnv) -> None:
    """The job and its change are committed together."""
    runs: list[JobRun] = []
    env.handles("probe", recorder(runs))

    async with env.worker():
        with pytest.raises(RuntimeError, match="changed my mind"):
            async with env.database.transaction() as connection:
                await env.queue.add([NewJob(type="probe", payload={"n": 1})]).run(connection)
                raise RuntimeError("changed my mind")
        await env.enqueue("probe", n=2)
        await until(lambda: env.has(JobStatus.COMPLETED, 1))

    assert [run.payload for run in runs] == [{"n": 2}]
    assert sum((await env.queue.stats()).by_status.values()) == 1


async def test_an_urgent_job_runs_while_others_hold_every_place(env: CommandEnv) -> None:
    """Creates wait for the provider's rate limit with a place in their hands; a delete must not wait for them."""
    held = asyncio.Event()
    runs: list[JobRun] = []

    async def hold(_run: JobRun) -> None:
        await held.wait()

    env.handles("create", hold, priority=Priority.HIGH)
    env.handles("delete", recorder(runs), priority=Priority.URGENT)
    for n in range(20):
        await env.enqueue("create", n=n)
    async with env.worker(concurrency=2, dequeue_timeout=timedelta(hours=1)):
        await until(lambda: env.has(JobStatus.PROCESSING, 4), what="as many jobs taken as the worker may take")
        await env.enqueue("delete", n=1)
        await until(lambda: bool(runs), what="the urgent job")
        held.set()

    assert [run.payload["n"] for run in runs] == [1]


async def test_an_urgent_job_that_is_put_back_stays_urgent(env: CommandEnv) -> None:
    """A delete that met an outage must not queue up behind every create; other jobs that come back do."""

    async def later(_run: JobRun) -> None:
        raise RequeueError(timedelta(minutes=1), "not now")

    env.handles("delete", later, priority=Priority.URGENT)
    env.handles("create", later, priority=Priority.HIGH)
    async with env.worker():
        for name in ("delete", "create"):
            await env.enqueue(name)
        async with env.database.transaction() as connection:
            await env.queue.add([NewJob(type="create", payload={}, first=True)]).run(connection)

        async def all_put_back() -> bool:
            return all(job.next_retry_at is not None for job in await env.queue.find())

        await until(all_put_back)

    assert sorted(job.priority for job in await env.queue.find()) == [Priority.HIGH, Priority.HIGH, Priority.URGENT]


async def test_a_failing_job_is_retried_then_kept_as_failed(env: CommandEnv) -> None:
    """Three retries after the first run, then failed for good, with the error to read."""
    attempts: list[int] = []

    async def handler(run: JobRun) -> None:
        attempts.append(run.attempt)
        raise ValueError("no such luck")

    env.handles("doomed", handler, retries=3)
    async with env.worker():
        job_id = await env.enqueue("doomed", instanceId="inst_1")
        await until(lambda: env.has(JobStatus.FAILED, 1))
    (view,) = await env.queue.find(status=JobStatus.FAILED)

    assert attempts == [1, 2, 3, 4]
    assert (view.id, view.attempts, view.max_attempts) == (job_id, 4, 4)
    assert view.error == "no such luck"
    assert view.completed_at is not None


@pytest.mark.parametrize(
    "later",
    [
        RequeueError(timedelta(milliseconds=1), "not yet"),
        CloudTransientError("the provider is away", retry_after_seconds=0.001),
    ],
    ids=["asked for", "outage"],
)
async def test_a_requeue_costs_no_attempt(env: CommandEnv, later: Exception) -> None:
    """However long an outage lasts, no job fails of it."""
    attempts: list[int] = []

    async def handler(run: JobRun) -> None:
        attempts.append(run.attempt)
        if len(attempts) <= 6:
            raise later

    env.handles("patient", handler, retries=1)
    async with env.worker():
        await env.enqueue("patient")
        await until(lambda: env.has(JobStatus.COMPLETED, 1))

    assert attempts == [1] * 7


@pytest.mark.parametrize(
    "error", [RequeueError(timedelta(milliseconds=100), "not yet"), ValueError("try again")], ids=["again", "retry"]
)
async def test_a_job_that_is_put_back_for_a_moment_runs_after_that_moment(env: CommandEnv, error: Exception) -> None:
    """On a quiet service a worker sleeps until it is woken; a requeue of 0.1 s must not wait for the next poll."""
    runs: list[JobRun] = []

    async def handler(run: JobRun) -> None:
        runs.append(run)
        if len(runs) <= 4:
            raise error

    env.handles("again", handler, retries=4)
    async with env.worker(dequeue_timeout=timedelta(hours=1)):
        await env.enqueue("again")
        await until(lambda: len(runs) == 5, what="the fifth run")
        await until(lambda: env.has(JobStatus.COMPLETED, 1))


@pytest.mark.parametrize("limit", [1, 3])
async def test_no_more_than_the_limit_run_at_once(env: CommandEnv, limit: int) -> None:
    """MAX_CONCURRENT_JOBS holds, also where PgQueuer itself wants at least two."""
    running, most, release = 0, 0, asyncio.Event()

    async def handler(_run: JobRun) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1

    env.handles("slow", handler)
    for n in range(8):
        await env.enqueue("slow", n=n)
    async with env.worker(limit):
        await until(lambda: running == limit)
        release.set()
        await until(lambda: env.has(JobStatus.COMPLETED, 8))

    assert most == limit


async def test_urgent_jobs_overtake_others(env: CommandEnv) -> None:
    """A create goes before housekeeping that was queued earlier."""
    order: list[str] = []

    async def handler(run: JobRun) -> None:
        order.append(run.type)

    env.handles("housekeeping", handler, priority=Priority.LOW)
    env.handles("create", handler, priority=Priority.HIGH)
    for name in ("housekeeping", "create", "housekeeping", "create"):
        await env.enqueue(name)
    async with env.worker(1):
        await until(lambda: env.has(JobStatus.COMPLETED, 4))

    assert order == ["create", "create", "housekeeping", "housekeeping"]


async def test_what_goes_first_overtakes_creates_until_it_has_had_its_turn(env: CommandEnv) -> None:
    """A requeued job goes to the end of the queue, so that requeued jobs delay no others."""
    order: list[str] = []

    async def create(run: JobRun) -> None:
        order.append(run.type)

    async def look(run: JobRun) -> None:
        order.append(run.type)
        if order.count("look") == 1:
            raise RequeueError(timedelta(0), "not yet")

    env.handles("create", create, priority=Priority.HIGH)
    env.handles("look", look)
    for _ in range(8):
        await env.enqueue("create")
    async with env.database.transaction() as connection:
        await env.queue.add([NewJob(type="look", payload={}, first=True)]).run(connection)
    assert [view.type for view in await env.queue.find(priority=Priority.HIGH)] == ["look", *["create"] * 8]
    async with env.worker(1):
        await until(lambda: env.has(JobStatus.COMPLETED, 9))

    assert order == ["look", *["create"] * 8, "look"]


async def test_a_stop_lets_running_jobs_end(env: CommandEnv) -> None:
    """Within the grace period a job finishes as if nothing had happened."""
    began, release, ended = asyncio.Event(), asyncio.Event(), []

    async def handler(run: JobRun) -> None:
        began.set()
        await release.wait()
        ended.append(run.id)

    env.handles("slow", handler)
    async with env.worker() as worker:
        job_id = await env.enqueue("slow")
        await began.wait()
        stopping = asyncio.create_task(worker.stop())
        release.set()
        put_back = await stopping

    assert put_back == 0
    assert ended == [job_id]
    assert await env.has(JobStatus.COMPLETED, 1)


async def test_a_job_that_outlasts_the_grace_period_is_put_back_whole(env: CommandEnv) -> None:
    """A cancelled job is not a finished one: another worker runs it, and no attempt is lost."""
    attempts: list[int] = []
    began = asyncio.Event()

    async def handler(run: JobRun) -> None:
        attempts.append(run.attempt)
        began.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()

    env.handles("endless", handler)
    async with env.worker(grace=0.05) as worker:
        await env.enqueue("endless")
        await began.wait()
        put_back = await worker.stop(0.05)
    assert put_back == 1
    assert await env.has(JobStatus.PENDING, 1)

    async with env.worker():
        await until(lambda: env.has(JobStatus.COMPLETED, 1))

    assert attempts == [1, 1]


async def test_a_job_that_takes_long_is_confirmed_while_it_runs(env: CommandEnv) -> None:
    """Another worker would take it over otherwise, and run it a second time."""
    ends, confirmed = asyncio.Event(), set[datetime]()

    async def handler(_run: JobRun) -> None:
        await ends.wait()

    async def is_confirmed() -> bool:
        async with env.database.connection() as connection:
            confirmed.update(await connection.fetchval("SELECT array_agg(heartbeat) FROM corral_pgqueuer") or ())
        return len(confirmed) > 2

    env.handles("probe", handler)
    async with env.worker():
        await env.enqueue("probe")
        await until(is_confirmed)
        ends.set()
        await until(lambda: env.has(JobStatus.COMPLETED, 1))


async def test_only_one_job_of_a_key_waits(env: CommandEnv) -> None:
    """Ten processes asking for the same housekeeping get it done once."""
    env.handles("sweep", recorder([]))
    async with env.database.transaction() as connection:
        jobs = [NewJob(type="sweep", payload={}, dedupe_key="every:sweep") for _ in range(3)]
        added = await env.queue.add(jobs).run(connection)
        again = await env.queue.add(jobs).run(connection)

    assert (len(added), len(again)) == (1, 0)


async def test_an_unknown_type_is_refused(env: CommandEnv) -> None:
    """A job without a handler must not be accepted."""
    async with env.database.transaction() as connection:
        with pytest.raises(ValueError, match="no job type is called 'mystery'"):
            await env.queue.add([NewJob(type="mystery", payload={})]).run(connection)


async def test_lists_show_waiting_and_finished_jobs_alike(env: CommandEnv) -> None:
    """A person looks for a job and finds it, whatever became of it."""
    env.handles("probe", recorder([]), priority=Priority.HIGH)
    done = await env.enqueue("probe", instanceId="inst_1")
    async with env.worker():
        await until(lambda: env.has(JobStatus.COMPLETED, 1))
    waiting = await env.enqueue("probe", instanceId="inst_2")

    everything = await env.queue.find()
    finished = await env.queue.get(everything[1].id)

    assert [(view.id, view.status) for view in everything] == [(waiting, "pending"), (done, "completed")]
    assert finished is not None
    assert finished.payload == {"instanceId": "inst_1"}
    assert (
        finished.created_at
        <= (finished.processed_at or finished.created_at)
        <= (finished.completed_at or finished.created_at)
    )
    assert [view.id for view in await env.queue.find(instance_id="inst_2")] == [waiting]
    assert [view.id for view in await env.queue.find(instance_id="inst_1", status=JobStatus.COMPLETED)] == [done]
    assert await env.queue.find(type="other") == []
    assert await env.queue.find(priority=Priority.LOW) == []


async def test_cleanup_removes_only_what_is_finished_and_old(env: CommandEnv) -> None:
    """Waiting jobs are never cleaned up, however old."""

    async def fails(_run: JobRun) -> None:
        raise ValueError("no")

    env.handles("good", recorder([]))
    env.handles("bad", fails, retries=0)
    for name in ("good", "bad"):
        await env.enqueue(name)
    async with env.worker():
        await until(lambda: env.has(JobStatus.COMPLETED, 1))
        await until(lambda: env.has(JobStatus.FAILED, 1))
    await env.enqueue("good")

    assert await env.queue.cleanup(timedelta(hours=1), LINE) == 0
    assert await env.queue.cleanup(timedelta(0), LINE) == 2
    assert [view.status for view in await env.queue.find()] == ["pending"]


async def test_the_queue_notifies_itself_only_once_it_listens(database: Database) -> None:
    """A note sent before is lost, and the listener would be taken for dead ten seconds later."""
    driver, heard = ListenFirstDriver(database.pool), list[object]()
    async with driver:
        early = asyncio.create_task(driver.notify("corral_test", "are you there?"))
        assert (await database.probe()).at is not None
        assert not early.done()
        await driver.add_listener("corral_test", heard.append)
        await early
        await until(lambda: heard == ["are you there?"])

    assert heard == ["are you there?"]


async def test_a_look_that_finds_no_job_takes_two_statements(env: CommandEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every notification causes a look, and in a burst most of them find nothing."""
    runs: list[JobRun] = []
    env.handles("probe", recorder(runs))
    env.handles("delete", recorder(runs), priority=Priority.URGENT)
    sent, fetch = list[str](), ListenFirstDriver.fetch

    async def counted(driver: ListenFirstDriver, query: str, *args: object) -> list[dict[str, object]]:
        found = await fetch(driver, query, *args)
        if QUEUE in query:
            sent.append("take" if "UPDATE" in query else "wait")
        return found

    monkeypatch.setattr(ListenFirstDriver, "fetch", counted)
    async with env.worker(dequeue_timeout=timedelta(hours=1)):
        await until(lambda: sent == ["take", "wait"], what="the first look, which finds nothing")
        async with env.database.connection() as connection:
            await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, WAKE)
        await until(lambda: len(sent) == 4, what="the look after a notification")
        await env.enqueue("probe", n=1)
        await until(lambda: bool(runs))

    assert sent[:7] == ["take", "wait"] * 2 + ["take", "take", "wait"]
