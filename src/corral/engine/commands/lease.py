"""
Changes leases: replaces one, extends it, or records a use; each with its event and audit line in one transaction.

`domain/leases/changes.py` decides on the row that the transaction has locked: of an extension and a stop at the same
time, the later one sees the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus

import msgspec

from corral.base.clock import Clock
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.errors import GoalRefusedError, SpecInvalidError
from corral.domain.events import Change, lease_events
from corral.domain.idempotency import KeyRow, StoredResponse
from corral.domain.instance import Instance, InstanceId
from corral.domain.leases.changes import Extension, extended, lease_replaced, used
from corral.domain.leases.lease import LeaseState
from corral.domain.lifecycle.phases import Goal
from corral.domain.operation import InstanceWithOperation
from corral.domain.requests.lease import LeaseChange, LeaseDefaults, changed
from corral.engine.commands.context import CommandContext
from corral.engine.events.publisher import EventPublisher
from corral.engine.ids import is_id, no_such_instance
from corral.engine.queries.instances import InstanceDescriber
from corral.store.session.database import Connection, Database
from corral.store.tables import instances, leases, operations
from corral.store.tables.callers import audit, idempotency


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLease:
    """The commands on a lease. Nothing is done to the machine: the reconcile that follows judges the lease."""

    database: Database
    event_publisher: EventPublisher
    caches: CacheRegistry
    clock: Clock
    describer: InstanceDescriber
    defaults: LeaseDefaults

    async def change(
        self, given_id: str, change: LeaseChange, context: CommandContext
    ) -> tuple[InstanceWithOperation, bool]:
        """
        Merge *change* into the lease of the instance; returns the instance, and whether anything changed.

        Raises NotFoundError, SpecInvalidError if the merged lease is not possible, and GoalRefusedError if the instance
        is deleted or being deleted. What changes nothing writes no event and no audit line.
        """
        async with self.database.transaction() as connection:
            before = await _locked(connection, given_id)
            if before.goal is Goal.GONE:
                raise GoalRefusedError(
                    f"{before.request.name!r} is {before.phase}: its lease has no effect any more",
                    code="INSTANCE_NOT_RUNNING",
                    details={"instanceId": before.id, "status": before.phase.value},
                )
            now, present = self.clock.now(), None if before.lease is None else before.lease.lease
            merged = changed(present, change, self.defaults)
            if isinstance(merged, tuple):
                raise SpecInvalidError(merged)
            is_new = merged != present and not (present is None and merged.is_empty)
            after = before
            if is_new:
                state = lease_replaced(before, merged, now)
                because = "its lease was changed"
                after = await self._write(connection, before, state, because=because, now=now, context=context)
            operation = await operations.load(connection, after.operation_id)
        self.caches.drop(CacheName.INSTANCE_DETAILS, after.id)
        return InstanceWithOperation(instance=after, operation=operation), is_new

    async def extend(self, given_id: str, extension: Extension, context: CommandContext) -> StoredResponse | KeyRow:
        """
        Let the instance live longer; returns the response, which is stored under the context's key.

        Raises NotFoundError, GoalRefusedError if nothing would end it or it is not running, and CallerError if it would
        live longer than CORRAL_MAX_TTL. Returns the row of the key instead when another request used that key first.
        """
        async with self.database.transaction() as connection:
            before = await _locked(connection, given_id)
            now = self.clock.now()
            state = extended(before, extension, now, self.defaults.max_ttl)
            after = instances.updated(replace(before, lease=state))
            operation = await operations.load(connection, after.operation_id)
            # Without an estimate, which another connection would have to read.
            details = self.describer.known_at(InstanceWithOperation(instance=after, operation=operation), now)
            response = StoredResponse(status=HTTPStatus.OK, body=msgspec.json.encode(details))
            if context.key is not None:
                row = context.key.row(response)
                (kept,) = await idempotency.keep(connection, [row], now)
                if kept is not row:
                    return kept
            await self._write(connection, before, state, because="its lease was extended", now=now, context=context)
        self.caches.drop(CacheName.INSTANCE_DETAILS, after.id)
        return response

    async def use(self, given_id: str, at: datetime | None, context: CommandContext) -> tuple[InstanceId, datetime]:
        """
        Record a use of the instance at *at*, by default now; returns its id and its last use.

        A use earlier than the last one that is recorded changes nothing. One that cancels a notice has an audit line;
        others have none, because each open session reports one every minute. Raises NotFoundError.
        """
        async with self.database.transaction() as connection:
            before = await _locked(connection, given_id)
            now = self.clock.now()
            state = used(before, at, now)
            if state != before.lease:
                await self._write(connection, before, state, because="it was used", now=now, context=context)
        self.caches.drop(CacheName.INSTANCE_DETAILS, before.id)
        return before.id, state.last_used_at or now

    async def _write(
        self,
        connection: Connection,
        before: Instance,
        state: LeaseState,
        *,
        because: str,
        now: datetime,
        context: CommandContext,
    ) -> Instance:
        """Write the lease, its event and the audit line; a use that cancels no notice has neither."""
        after = replace(before, lease=state)
        if lease_events(before, after):
            line = audit.append([context.line(at=now, instance_id=after.id)])
            change = Change(before=before, after=after, because=because, at=now)
            writes = [leases.change(after, wake_at=now), line]
            is_written = await self.event_publisher.write(connection, writes, [change])
        else:
            is_written = bool(await leases.change(after, wake_at=None).run(connection))
        if not is_written:
            raise instances.stale(before)
        return instances.updated(after)


async def _locked(connection: Connection, given_id: str) -> Instance:
    """The instance, with its row locked; raises NotFoundError."""
    found = await instances.load_for_update(connection, given_id) if is_id(given_id) else None
    if found is None:
        raise no_such_instance(given_id)
    return found
