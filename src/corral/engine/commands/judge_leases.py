"""Judges every lease now, by the same rules as the reconcile, which does so anyway when it is time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.base.clock import Clock
from corral.domain.audit import AuditEntry
from corral.domain.instance import Instance
from corral.domain.leases.decide import LeaseDecision, judge
from corral.domain.leases.lease import EndCause
from corral.domain.operation import OperationKind
from corral.engine.observe.observations import reconcile_job
from corral.jobs.queue import JobQueue
from corral.store.session.database import Database
from corral.store.tables.callers import audit
from corral.store.tables.fleet import leased
from corral.store.tables.fleet.leased import LeaseCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingInstance:
    """An instance that its lease ends, if nothing changes."""

    instance: Instance
    cause: EndCause
    reason: str
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLeases:
    """What follows from all leases."""

    judged: int
    ending: Sequence[EndingInstance]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeLeases:
    """Reads all leases and the measurements that are stored; the provider is not called."""

    database: Database
    queue: JobQueue
    clock: Clock

    async def counts(self) -> LeaseCounts:
        """How many leases there are of each kind."""
        async with self.database.connection() as connection:
            return await leased.counts(connection, self.clock.now())

    async def judge(self, line: AuditEntry | None) -> JudgedLeases:
        """
        What follows from each lease now.

        With *line*, the audit line of the request, also requests a reconcile of each instance for which something
        follows; without it nothing is written. The reconcile judges again, so an instance that is used meanwhile stays.
        """
        now, ending = self.clock.now(), list[EndingInstance]()
        async with self.database.transaction() as connection:
            found = await leased.leased(connection)
            samples = await leased.samples_of(connection, [each.id for each in found])
            due = list[Instance]()
            for each in found:
                decision = judge(each, samples.get(each.id, ()), now)
                end = _end(each, decision, now)
                ending += [] if end is None else [end]
                due += [each] if decision.state is not each.lease or decision.command is not None else []
            if line is not None:
                if due:
                    await self.queue.add([reconcile_job(each.id, each.phase) for each in due]).run(connection)
                await audit.append([line]).run(connection)
        return JudgedLeases(judged=len(found), ending=sorted(ending, key=lambda each: each.ends_at))


def _end(instance: Instance, decision: LeaseDecision, now: datetime) -> EndingInstance | None:
    notice = None if decision.state is None else decision.state.notice
    if decision.command in {OperationKind.STOP, OperationKind.DELETE} and decision.cause is not None:
        return EndingInstance(instance=instance, cause=decision.cause, reason=decision.because, ends_at=now)
    if notice is None:
        return None
    return EndingInstance(instance=instance, cause=notice.cause, reason=notice.reason, ends_at=notice.ends_at)
