"""
Changes instances: records the goal of a start, stop, restart or delete, its operation, event, job and audit line.

`domain/lifecycle/commands.py` decides on the row that the transaction has locked, so of simultaneous commands one is
accepted. The provider is not called here; the job does that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from corral.base.clock import Clock
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.audit import AuditEntry
from corral.domain.budgets.admission import refused
from corral.domain.events import Change, Progress
from corral.domain.idempotency import KeyRow, StoredResponse
from corral.domain.instance import Instance, InstanceId, OperationId
from corral.domain.leases.changes import stopped_by_user
from corral.domain.lifecycle.commands import Command, CommandOptions, apply_command, is_done_already
from corral.domain.lifecycle.transitions import check_transition
from corral.domain.operation import ENDED, STARTUPS, Operation, OperationKind, OperationStatus, new_operation
from corral.engine.budgets.reservations import BudgetReservations, wanted_by
from corral.engine.commands.adopt import ProviderNameLookup
from corral.engine.commands.context import CommandContext
from corral.engine.commands.create import REMIND_AFTER
from corral.engine.events.publisher import EventPublisher
from corral.engine.ids import is_id, name_ambiguous, no_instance_named, no_such_instance
from corral.engine.payloads import about
from corral.engine.queries.estimates import Estimates
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import RELEASE
from corral.store.session.database import Connection, Database
from corral.store.tables import instances, leases, operations, sealed_secrets
from corral.store.tables.callers import audit, idempotency
from corral.store.tables.costs import usage
from corral.views.commands import change_response
from corral.views.instance import InstanceView


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedCommand:
    """A command that was accepted."""

    instance: Instance
    response: StoredResponse
    is_new: bool
    """False when it was requested or done already."""
    is_audited: bool
    """Whether its audit line was written with its change; False if it changed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInstance:
    """The command that starts, stops, restarts and deletes instances."""

    database: Database
    queue: JobQueue
    event_publisher: EventPublisher
    caches: CacheRegistry
    estimates: Estimates
    clock: Clock
    new_id: Callable[[], str]
    start_within: timedelta
    view: InstanceView
    budgets: BudgetReservations
    name_lookup: ProviderNameLookup | None = None

    async def record(
        self, kind: OperationKind, given_id: str, options: CommandOptions, context: CommandContext
    ) -> AcceptedCommand | KeyRow:
        """
        Record *kind* for the instance; raises NotFoundError, or GoalRefusedError when its phase does not allow it.

        A start reserves money, and raises BudgetExceededError if a budget does not allow it; a restart reserves none,
        because the machine costs the same before and after.
        A command of a lease raises StaleError if the instance changed since it was judged.

        A delete of an instance that is being deleted, and a stop of one that is stopped or stopping, change nothing and
        write no audit line; but what its lease stopped then counts as stopped by the user. Returns the row of the
        context's key instead when another request used that key first.
        """
        if not is_id(given_id):
            raise no_such_instance(given_id)
        ready_at = await self._ready_at(kind, given_id)
        async with self.database.transaction() as connection:
            before = await instances.load_for_update(connection, given_id)
            if before is None:
                raise no_such_instance(given_id)
            if context.lease is not None and context.lease.generation != before.generation:
                raise instances.stale(before)
            now = self.clock.now()
            is_new = not is_done_already(before, kind)
            current = await operations.load(connection, before.operation_id)
            after = _repeated(before, kind, context)
            if is_new:
                after = apply_command(before, current, self._command(kind, options, now, context))
            response = change_response(self.view, kind, after, is_new=is_new, estimated_ready_at=ready_at)
            if context.key is not None:
                row = context.key.row(response)
                (kept,) = await idempotency.keep(connection, [row], now)
                if kept is not row:
                    return kept
            if is_new and kind is OperationKind.START:
                after = await self._reserved(connection, after, now)
            if is_new:
                operation = new_operation(
                    kind, after, now, correlation_id=context.correlation_id, traceparent=context.traceparent
                )
                await self._write(connection, before, after, operation=operation, current=current, context=context)
            elif after is not before:
                await leases.change(after, wake_at=None).run(connection)
                line = replace(context.line(at=now, instance_id=after.id), status=response.status)
                await audit.append([line]).run(connection)
        self.caches.drop(CacheName.INSTANCE_DETAILS, after.id)
        return AcceptedCommand(instance=after, response=response, is_new=is_new, is_audited=after is not before)

    async def named(self, kind: OperationKind, name: str, line: AuditEntry) -> InstanceId:
        """
        The id of the one live instance called *name*; raises NotFoundError, or GoalRefusedError if there are several.

        A start also looks the name up at the provider, unless that is switched off; a machine without a record is then
        adopted, with *line* as the audit line of the adoption.
        """
        async with self.database.connection() as connection:
            found = await instances.live_named(connection, name)
        if not found and kind is OperationKind.START and self.name_lookup is not None:
            return await self.name_lookup.startable(name, line)
        if not found:
            raise no_instance_named(name)
        if len(found) > 1:
            raise name_ambiguous(name, {"instanceIds": [instance.id for instance in found]})
        return found[0].id

    async def _reserved(self, connection: Connection, instance: Instance, now: datetime) -> Instance:
        """*instance* with the reservation of its start; raises BudgetExceededError."""
        reservation = self.budgets.amount(instance.request, instance.placement, now)
        wanted = wanted_by(instance, reservation)
        why = await self.budgets.reserve(connection, wanted, now, of=instance.id)
        if why is not None:
            raise refused(why)
        return replace(instance, reservation=reservation)

    def _command(self, kind: OperationKind, options: CommandOptions, now: datetime, context: CommandContext) -> Command:
        return Command(
            kind=kind,
            operation_id=OperationId(f"op_{self.new_id()}"),
            at=now,
            within=self.start_within,
            options=options,
            cause=None if context.lease is None else context.lease.cause,
        )

    async def _ready_at(self, kind: OperationKind, given_id: str) -> datetime | None:
        """The estimate for a start or restart; read before the transaction, which must not wait for another query."""
        if kind not in STARTUPS:
            return None
        async with self.database.connection() as connection:
            found = await instances.load(connection, given_id)
        return None if found is None else await self.estimates.ready_at(found.request.product_name, self.clock.now())

    async def _write(
        self,
        connection: Connection,
        before: Instance,
        after: Instance,
        *,
        operation: Operation,
        current: Operation | None,
        context: CommandContext,
    ) -> None:
        """Write instance, audit line, operations, job and event in one statement."""
        check_transition(before, after)
        now, is_startup = operation.created_at, operation.kind in STARTUPS
        job = NewJob(type="monitor_startup" if is_startup else RELEASE, payload=about(after), first=is_startup)
        writes = [
            instances.update(after, wake_at=now + REMIND_AFTER),
            audit.append([context.line(at=now, instance_id=after.id)]),
            operations.add([operation]),
            self.queue.add([job]),
            *sealed_secrets.forget_unneeded([(before, after)]),
            *usage.write(before, after, now),
        ]
        if current is not None and current.status not in ENDED:
            writes.append(operations.update(replace(current, status=OperationStatus.CANCELLED)))
        because = context.reason or f"its {operation.kind} was requested"
        if context.lease is not None:
            because = context.lease.reason
        progress = Progress(before=None, after=operation)
        change = Change(before=before, after=after, because=because, at=now, progress=progress)
        if not await self.event_publisher.write(connection, writes, [change]):
            raise instances.stale(before)


def _repeated(instance: Instance, kind: OperationKind, context: CommandContext) -> Instance:
    """The instance after a command that was given already; the same object if that changes nothing."""
    if kind is not OperationKind.STOP or instance.lease is None or context.lease is not None:
        return instance
    state = stopped_by_user(instance.lease)
    return instance if state is instance.lease else replace(instance, lease=state)
