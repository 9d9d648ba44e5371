"""One correlation id for a request and for everything that follows from it."""

from __future__ import annotations

import asyncio
import re

import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs
from support.clock.waiting import until
from support.engines.stepped_engine import stepped_engine
from support.http.served_api import CREATE_BODY, opened

from corral.base.clock import SystemClock
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.jobs.queue import JobQueue, JobStatus, NewJob
from corral.jobs.registry import JobRun, JobType, Registry
from corral.jobs.worker import Worker
from corral.store.server.target import DatabaseTarget
from corral.store.session.database import Database
from corral.store.tables import operations

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def test_a_create_gives_its_correlation_id_to_its_job_and_its_operation(database: Database) -> None:
    """Also when requests are committed together: each job names its own request."""
    async with opened(database) as api:
        answers = await asyncio.gather(
            *(
                api.service.ask(
                    "POST",
                    "/api/instances",
                    json={**CREATE_BODY, "name": name},
                    headers={"X-Correlation-ID": f"order-{name}"},
                )
                for name in ("a", "b", "c", "d", "e")
            )
        )
        jobs = await api.env.queue.find(type="create_instance")
        async with database.connection() as connection:
            asked = [await operations.load(connection, answer.json["operationId"]) for answer in answers]

    assert sorted((str(job.payload["name"]), job.payload["correlationId"]) for job in jobs) == [
        (name, f"order-{name}") for name in ("a", "b", "c", "d", "e")
    ]
    assert [None if one is None else one.correlation_id for one in asked] == [
        f"order-{name}" for name in ("a", "b", "c", "d", "e")
    ]


async def test_log_lines_of_a_request_carry_its_ids_and_what_was_asked(database: Database) -> None:
    """Here of one that fails, because it is always logged."""
    async with database.connection() as connection:
        await connection.execute("DROP TABLE corral_finished_jobs")
    async with opened(database) as api:
        with capture_logs(processors=[merge_contextvars]) as lines:
            sent = {"X-Correlation-ID": "order-8", "X-Request-ID": "first"}
            failed = await api.service.ask("GET", "/api/jobs", headers=sent)

    assert failed.status == 500
    (line,) = (line for line in lines if line["event"] == "request.failed")
    assert (line["request_id"], line["correlation_id"], line["operation"]) == ("first", "order-8", "GET /api/jobs")


async def test_log_lines_of_a_pass_carry_the_id_and_kind_of_its_operation(
    database: Database, target: DatabaseTarget
) -> None:
    """Also when a reminder, which names no request, led to it."""
    async with stepped_engine(database, target) as engine:
        await engine.request_create()
        async with database.connection() as connection:
            await connection.execute("UPDATE corral_operations SET correlation_id = 'order-9'")
        with capture_logs(processors=[merge_contextvars]) as lines:
            await engine.work()

    moved = [line for line in lines if line["event"] == "instance.phase_changed"]
    assert [(line["operation"], line["correlation_id"]) for line in moved] == [("create", "order-9")]


async def test_the_job_of_a_create_shows_instance_and_correlation(database: Database) -> None:
    """Of the webhook its host only: the rest of the address may hold a secret."""
    async with opened(database) as api:
        made = (await api.request_create(webhookUrl="https://hooks.example:8443/secret?token=1")).json
        (job,) = await api.env.queue.find(type="create_instance")

    payload = dict(job.payload)
    assert MOMENT.fullmatch(str(payload.pop("startTime")))
    assert payload.pop("correlationId")
    assert payload == {
        "instanceId": made["instanceId"],
        "name": "trainer",
        "productName": "RTX 4090 24GB",
        "templateId": "204511",
        "gpuNum": 2,
        "rootfsSize": 60,
        "region": made["region"],
        "maxWaitTime": 20 * 60 * 1000,
        "webhookHost": "hooks.example",
    }


async def test_log_lines_of_a_job_and_of_the_jobs_it_causes_carry_the_id(database: Database) -> None:
    """One id finds every line."""
    registry = Registry()
    queue = JobQueue(database, registry)

    async def first(_run: JobRun) -> None:
        log.info("request.served", step="first")
        async with database.transaction() as connection:
            await queue.add([NewJob(type="second", payload={})]).run(connection)

    async def second(_run: JobRun) -> None:
        log.info("request.served", step="second")

    registry.add(JobType(name="first", handler=first))
    registry.add(JobType(name="second", handler=second))
    worker = Worker(database, registry, queue, clock=SystemClock(), metrics=Metrics(), concurrency=2)

    async def has_ended() -> bool:
        return (await queue.stats()).by_status[JobStatus.COMPLETED] == 2

    with capture_logs(processors=[merge_contextvars]) as lines:
        with structlog.contextvars.bound_contextvars(correlation_id="order-7"):
            async with database.transaction() as connection:
                await queue.add([NewJob(type="first", payload={})]).run(connection)
        working = asyncio.create_task(worker.run())
        await until(has_ended)
        await worker.stop()
        await working

    seen = [(line["step"], line["job_type"], line["correlation_id"]) for line in lines if "step" in line]
    assert seen == [("first", "first", "order-7"), ("second", "second", "order-7")]
