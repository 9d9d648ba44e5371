"""Every job type of the service, in one list, and the workers that run them."""

from __future__ import annotations

from collections.abc import Callable

from corral.engine.auth import audit_log
from corral.engine.engine import Engine
from corral.engine.events.publisher import SEND_WEBHOOK
from corral.engine.maintenance import delivery_retention
from corral.jobs import retention
from corral.jobs.pause import Pause
from corral.jobs.queue import JobQueue
from corral.jobs.registry import JobPool, JobRun, JobType, Registry
from corral.jobs.worker import Worker
from corral.store.session.database import Database
from corral.store.session.presence import Presence
from corral.webhooks.slots import SEND_SLOTS


def job_types(engine: Engine) -> list[JobType]:
    """Every job type, with its handler in *engine*."""
    runtime = engine.runtime
    return [
        *engine.reconciler.job_types(runtime.settings.provider.max_retry_attempts),
        engine.webhook_sender.job_type(),
        engine.orphan_sweep.job_type(),
        engine.stuck_sweep.job_type(),
        delivery_retention.sweep(runtime.database, engine.queue, runtime.clock),
        audit_log.sweep(runtime.database, runtime.clock),
        retention.sweep(engine.queue),
        retention.sweep_answers(runtime.database, runtime.clock),
    ]


def build_workers(engine: Engine, *, presence: Presence, pause: Pause, is_crowded: Callable[[], bool]) -> list[Worker]:
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


def import_queue(database: Database) -> JobQueue:
    """A queue for an import, which has no engine: it adds sends, and the service runs them later."""

    async def left_to_the_service(_run: JobRun) -> None:
        raise RuntimeError("an import runs no jobs")

    registry = Registry()
    registry.add(JobType(name=SEND_WEBHOOK, handler=left_to_the_service))
    return JobQueue(database, registry)
