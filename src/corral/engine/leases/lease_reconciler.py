"""
What the lease of an instance decides, applied at the end of its reconcile.

Notices and their cancellations are recorded with their events. The end is an ordinary stop or delete, and a scheduled
start an ordinary start: recorded as a command on the generation that was judged. A record that changed meanwhile, such
as by an extension, is judged again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from corral.base.clock import Clock
from corral.base.log import log
from corral.base.metrics import Metrics
from corral.domain.audit import LEASE, AuditEntry, lease_entry
from corral.domain.errors import BudgetExceededError, GoalRefusedError
from corral.domain.events import EventType, lease_events
from corral.domain.instance import Instance
from corral.domain.leases.decide import LeaseDecision, judge, needs_samples
from corral.domain.leases.samples import IdleSample
from corral.domain.lifecycle.commands import CommandOptions
from corral.domain.operation import OperationKind
from corral.domain.timing import iso
from corral.engine.commands.change import ChangeInstance
from corral.engine.commands.context import CommandContext, LeaseOrder
from corral.engine.reconcile.create_gate import CreateGate
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.store.session.database import Database
from corral.store.tables import leases

REFUSED_PAUSE: Final = timedelta(minutes=1)
"""After a command that is not possible at the moment. Shorter repeats a judgement for nothing; longer ends it late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReconciler:
    """Applies leases."""

    database: Database
    recorder: Recorder
    change: ChangeInstance
    gate: CreateGate
    clock: Clock
    metrics: Metrics

    async def reconcile(self, context: ReconcileContext, instance: Instance) -> None:
        """Judge the lease of *instance* and do what follows; raises StaleError if it changed meanwhile."""
        if instance.lease is None:
            return
        decision = judge(instance, await self._samples(instance), self.clock.now())
        if decision.command is not None:
            await self._command(context, instance, decision.command, decision)
            return
        if decision.state is not instance.lease:
            await self._record(context, instance, decision)
        elif decision.wake_at is not None:
            await self.recorder.wake_by(context, instance, decision.wake_at)

    async def _samples(self, instance: Instance) -> list[IdleSample]:
        if not needs_samples(instance):
            return []
        async with self.database.connection() as connection:
            return await leases.samples(connection, instance.id)

    async def _record(self, context: ReconcileContext, instance: Instance, decision: LeaseDecision) -> None:
        """Write the changed lease, with the event of a notice or of its cancellation."""
        after = replace(instance, lease=decision.state)
        transition = Transition(after, decision.because)
        wake_at = min(filter(None, (context.wake_at, decision.wake_at)), default=None)
        await self.recorder.write(context, instance, transition, now=self.clock.now(), wake_at=wake_at)
        events = lease_events(instance, after)
        if EventType.ENDING_SOON in events and decision.state is not None and decision.state.notice is not None:
            notice = decision.state.notice
            self.metrics.lease_notices.labels(notice.cause).inc()
            log.info("lease.notice_given", because=decision.because, ends_at=iso(notice.ends_at))
        elif EventType.ENDING_CANCELLED in events:
            log.info("lease.notice_cancelled", because=decision.because)

    async def _command(
        self, context: ReconcileContext, instance: Instance, kind: OperationKind, decision: LeaseDecision
    ) -> None:
        """Record the command; its own job carries it out. Raises StaleError if its notice was withdrawn meanwhile."""
        async with self.database.connection() as connection:
            await self.gate.note_server(connection, context.server)
        reason = f"lease: {decision.because}"

        def line(*, at: datetime, instance_id: str) -> AuditEntry:
            return lease_entry(kind, reason, at, instance_id)

        order = LeaseOrder(generation=instance.generation, cause=decision.cause, reason=reason)
        given = CommandContext(line=line, caller=LEASE.name, lease=order)
        try:
            await self.change.record(kind, instance.id, CommandOptions(), given)
        except (GoalRefusedError, BudgetExceededError) as error:
            log.warning("lease.refused", because=reason, why=error.message)
            await self.recorder.wake_by(context, instance, self.clock.now() + REFUSED_PAUSE)
            return
        log.info("lease.applied", command=kind, because=reason)
        if decision.cause is not None:
            self.metrics.lease_ends.labels(decision.cause, kind).inc()
