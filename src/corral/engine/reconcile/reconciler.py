"""
One reconcile of one instance: read it, decide, record, act; repeated while something follows at once.

Then its lease is judged, which may end it by a command; also if the provider did not answer.

A job carries only the id of the instance. So a lost, late or doubled job is harmless, and a reconcile after a crash is
the same as any other.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from corral.base.log import log
from corral.base.metrics import ActionEnd, ReconcileEnd
from corral.base.tracing import tracing
from corral.base.tracing.tracing import Span, SpanKind
from corral.domain.errors import CloudError, IllegalTransitionError, StaleError
from corral.domain.instance import Instance, InstanceId
from corral.domain.leases.ends import runs_since
from corral.domain.lifecycle.creation import maybe_created
from corral.domain.lifecycle.decide import decide, why
from corral.domain.lifecycle.phases import Action, Phase
from corral.domain.lifecycle.transitions import Decision, decided
from corral.domain.operation import ENDED, Operation
from corral.engine.leases.lease_reconciler import LeaseReconciler
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.instance_locks import InstanceLocks
from corral.engine.reconcile.outcome import Outcome
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.engine.reconcile.steps.dispatch import Steps
from corral.engine.runtime import Runtime
from corral.jobs.registry import RELEASE, TRACEPARENT, JobRun, JobType, Priority, RequeueError
from corral.store.tables import instances

SOON = timedelta(seconds=10)
"""A reconcile due sooner than this is the same job, run again; a later one is started by the leader (`wake_at`)."""
BUSY_PAUSE = timedelta(milliseconds=250)
MOST_STEPS = 12
"""More steps than this in one reconcile would be an endless loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """Brings instances closer to their goals, one at a time."""

    steps: Steps
    runtime: Runtime
    recorder: Recorder
    gate: CreateGate
    locks: InstanceLocks
    leases: LeaseReconciler

    def job_types(self, retries: int) -> list[JobType]:
        """The types of the jobs that reconcile; their names say why."""
        names = {
            "create_instance": Priority.HIGH,
            "monitor_instance": Priority.NORMAL,
            "monitor_startup": Priority.NORMAL,
            RELEASE: Priority.URGENT,
        }
        return [JobType(name=n, handler=self.reconcile, priority=p, retries=retries) for n, p in names.items()]

    async def reconcile(self, run: JobRun) -> None:
        """Reconcile the instance of a job once; raises RequeueError to be run again soon."""
        instance_id = InstanceId(str(run.payload["instanceId"]))
        with structlog.contextvars.bound_contextvars(instance_id=instance_id):
            async with run.aside():
                taken = await self.locks.acquire(instance_id)
            if taken is None:
                self.runtime.metrics.reconciles.labels(ReconcileEnd.BUSY).inc()
                raise RequeueError(BUSY_PAUSE, "another worker reconciles it")
            try:
                operation = taken.operation
                with (
                    structlog.contextvars.bound_contextvars(**_log_fields(operation)),
                    tracing.span(f"reconcile {run.type}", SpanKind.CONSUMER, _cause(run, operation)) as span,
                    self._counted(span),
                ):
                    kind = None if operation is None else operation.kind.value
                    span.note(instance_id=instance_id, job_type=run.type, operation=kind)
                    context = ReconcileContext(
                        operation=taken.operation,
                        wake_at=taken.wake_at,
                        server=taken.server,
                        urgent=run.first,
                        aside=run.aside,
                    )
                    try:
                        settled = await self._reconcile(context, taken.instance)
                    except (CloudError, RequeueError):
                        await self._judge_lease(context, taken.instance)
                        raise
                    if settled is not None:
                        await self.leases.reconcile(context, settled)
            except StaleError as error:
                raise RequeueError(timedelta(0), error.message) from error
            except IllegalTransitionError as error:
                await self._contain(instance_id, error)
            finally:
                await self.locks.release(instance_id)

    async def _judge_lease(self, context: ReconcileContext, before: Instance | None) -> None:
        """Judge the lease after a step that did not end: a provider that does not answer must not put off an end."""
        if before is None or before.lease is None or runs_since(before) is None:
            return
        async with self.runtime.database.connection() as connection:
            known = await instances.load(connection, before.id)
        if known is not None:
            await self.leases.reconcile(context, known)

    async def _contain(self, instance_id: InstanceId, error: IllegalTransitionError) -> None:
        """
        Leave an instance as it is recorded after a mistake in the lifecycle, and reconcile it again later.

        Nothing of the refused change was written and no action followed from it: the machine is neither deleted nor
        forgotten. Failing the job instead would repeat the same mistake within seconds, and then drop the job.
        """
        log.error("instance.illegal_transition", why=error.message)
        later = self.runtime.clock.now() + self.runtime.policy.failed_interval
        async with self.runtime.database.connection() as connection:
            await instances.wake_by(connection, instance_id, later)

    @contextmanager
    def _counted(self, span: Span) -> Generator[None]:
        """Count a reconcile by how it ends, which is noted in *span* too."""
        began, end = self.runtime.clock.monotonic(), ReconcileEnd.FAILED
        try:
            yield
            end = ReconcileEnd.SETTLED
        except RequeueError:
            end = ReconcileEnd.AGAIN
            raise
        except StaleError:
            end = ReconcileEnd.STALE
            raise
        finally:
            span.note(failed=end is ReconcileEnd.FAILED, outcome=end)
            self.runtime.metrics.reconciles.labels(end).inc()
            self.runtime.metrics.pass_seconds.observe(self.runtime.clock.monotonic() - began)

    async def _reconcile(self, context: ReconcileContext, instance: Instance | None) -> Instance | None:
        """Do what follows from the record until nothing does; returns it as it is then."""
        if instance is None:
            return None
        for _ in range(MOST_STEPS):
            now = self.runtime.clock.now()
            decision = decide(instance, now, self.runtime.policy)
            if self._may_be_created(instance, decision):
                instance = maybe_created(instance, now)
                decision = decide(instance, now, self.runtime.policy)
            after = decided(instance, decision, now)
            entered = None if after is instance else Transition(after, why(instance, after, decision))
            wake_at = None if decision.requeue_after is None else now + decision.requeue_after
            if decision.action is Action.INSPECT:
                outcome = await self._inspect(context, instance, entered, wake_at)
            else:
                if entered is not None:
                    instance = await self.recorder.write(context, instance, entered, now=now, wake_at=wake_at)
                elif wake_at is not None:
                    await self.recorder.wake_by(context, instance, wake_at)
                if decision.action is None:
                    return instance
                with self._acting(decision.action):
                    outcome = await self.steps.do(decision.action, context, instance)
            if outcome.requeue_after is not None:
                await self._requeue(context, outcome.instance, outcome.requeue_after)
                return outcome.instance
            if outcome.instance.generation == instance.generation:
                return instance
            instance = outcome.instance
        log.error("instance.going_in_circles", phase=instance.phase)
        return instance

    async def _inspect(
        self, context: ReconcileContext, instance: Instance, entered: Transition | None, wake_at: datetime | None
    ) -> Outcome:
        """Look the instance up; what the first health check then shows is recorded together with its endpoints."""
        with self._acting(Action.INSPECT):
            outcome = await self.steps.inspect_step.inspect(context, instance, entered, wake_at)
        if not outcome.unwritten:
            return outcome
        with self._acting(Action.PROBE):
            return await self.steps.probe_step.probe(context, instance, *outcome.unwritten)

    def _may_be_created(self, instance: Instance, decision: Decision) -> bool:
        """Whether *decision* gives up a request of which an older database may have lost the create call."""
        gives_up = decision.phase is not instance.phase and decision.phase in {Phase.FAILED, Phase.TERMINATED}
        has_no_machine = instance.provider_id is None and not instance.create_in_doubt
        return gives_up and has_no_machine and self.gate.is_settling(instance.id)

    @contextmanager
    def _acting(self, action: Action) -> Generator[None]:
        """Count an action by how it ends."""
        end = ActionEnd.FAILED
        try:
            yield
            end = ActionEnd.OK
        finally:
            self.runtime.metrics.actions.labels(action, end).inc()

    async def _requeue(self, context: ReconcileContext, instance: Instance, after: timedelta) -> None:
        if after < SOON:
            raise RequeueError(after, f"still {instance.phase}")
        await self.recorder.wake_by(context, instance, self.runtime.clock.now() + after)


def _cause(run: JobRun, operation: Operation | None) -> str | None:
    """The span that a reconcile belongs to: of the operation's request until its end, or of what queued the job."""
    if operation is not None and operation.status not in ENDED and operation.traceparent is not None:
        return operation.traceparent
    found = run.payload.get(TRACEPARENT)
    return found if isinstance(found, str) else None


def _log_fields(operation: Operation | None) -> dict[str, object]:
    """What every log line of a reconcile carries: the operation, and the request that caused it."""
    if operation is None:
        return {}
    fields: dict[str, object] = {"operation": operation.kind.value}
    if operation.correlation_id is not None:
        fields["correlation_id"] = operation.correlation_id
    return fields
