"""
Creates instances: records the instance, its operation, event, job and audit line in one transaction.

Only the provider's catalog is read here; the job sends the create call. A response to a request with an idempotency key
is stored in the same transaction: after a crash either everything is recorded and a repetition gets the response, or
nothing is. So is the money that is reserved for it, in every budget that it belongs to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import structlog

from corral.base.clock import Clock
from corral.base.tracing import tracing
from corral.cache.registry import CacheName, CacheRegistry
from corral.domain.audit import AuditEntry
from corral.domain.budgets.admission import BudgetRefusal, WantedReservation, refused
from corral.domain.budgets.budget import Standing, scopes_of
from corral.domain.errors import SettingsError
from corral.domain.events import Change
from corral.domain.idempotency import KeyRow, StoredResponse
from corral.domain.instance import CreateRequest, Instance, InstanceId, Labels, OperationId, Placement
from corral.domain.leases.lease import Lease
from corral.domain.lifecycle.creation import KEY_UNUSABLE, expected_placement
from corral.domain.lifecycle.transitions import requested
from corral.domain.operation import Operation, OperationKind, new_operation
from corral.domain.placement.catalog import EnvironmentVariable
from corral.domain.placement.rank import Ranking
from corral.domain.records import replace
from corral.domain.requests.create import placement_request
from corral.engine.batcher import Batcher
from corral.engine.budgets.reservations import BudgetReservations, sums_by_scope, wanted_by
from corral.engine.commands.context import CommandContext
from corral.engine.events.publisher import EventPublisher
from corral.engine.payloads import about
from corral.engine.queries.catalog import Catalog
from corral.engine.queries.estimates import Estimates
from corral.engine.queries.requested import check_regions, resolve
from corral.jobs.queue import JobQueue, NewJob
from corral.jobs.registry import CORRELATION
from corral.store.secrets.key_file import SecretKeyFile
from corral.store.secrets.sealing import SealedSecrets
from corral.store.session.database import Connection, Database, ensure_transaction
from corral.store.tables import instances, operations, sealed_secrets
from corral.store.tables.callers import audit, idempotency
from corral.views.commands import created_response

REMIND_AFTER: Final = timedelta(minutes=1)
"""When an instance is reconciled even if its job is lost; every reconcile job then sets a reminder of its own. Shorter
repeats work that is under way; longer delays an instance whose job was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedInstance:
    """A create that was recorded."""

    instance: Instance
    operation: Operation
    estimated_ready_at: datetime
    response: StoredResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingCreate:
    created: CreatedInstance
    row: KeyRow | None
    line: AuditEntry
    sealed: SealedSecrets | None
    wanted: WantedReservation


@dataclass(slots=True, kw_only=True)
class CreateInstance:
    """The command that creates instances; requests that arrive together are committed together."""

    database: Database
    catalog: Catalog
    queue: JobQueue
    event_publisher: EventPublisher
    caches: CacheRegistry
    estimates: Estimates
    clock: Clock
    new_id: Callable[[], str]
    secret_key: SecretKeyFile
    budgets: BudgetReservations
    _batcher: Batcher[_PendingCreate, CreatedInstance | KeyRow | BudgetRefusal] = field(init=False)

    def __post_init__(self) -> None:
        self._batcher = Batcher(self._record, in_halves=True)

    async def standings(
        self, request: CreateRequest, ranking: Ranking, *, caller: str | None, labels: Labels
    ) -> tuple[int, list[Standing]]:
        """What a create would reserve, and the budgets that it would have to fit into; 0 if no offer is available."""
        now = self.clock.now()
        placement = expected_placement(ranking, request.gpu_num) if ranking.candidates else None
        amount = self.budgets.amount(request, placement, now).micro_usd
        wanted = WantedReservation(micro_usd=amount, scopes=scopes_of(caller, labels))
        return amount, await self.budgets.standings(wanted, now)

    async def plan(self, request: CreateRequest) -> Ranking:
        """The offers that creating *request* would try; raises as `create` does, except that none may be available."""
        if request.container is not None or request.secret_names:
            _, wanted = await resolve(self.catalog, request)
            return await self.catalog.plan(wanted)
        ranking, _ = await asyncio.gather(
            self.catalog.plan(placement_request(request)), self.catalog.template(request.template_id)
        )
        return ranking

    async def create(
        self,
        request: CreateRequest,
        context: CommandContext,
        *,
        labels: Labels = (),
        secrets: Sequence[EnvironmentVariable] = (),
        lease: Lease | None = None,
        protected: bool = False,
    ) -> CreatedInstance | KeyRow:
        """
        Record a new instance; raises NotFoundError when its product, template or volume is not available.

        Raises CallerError for volumes in the wrong place, and for more ports or variables than the provider takes;
        BudgetExceededError if a budget does not allow its cost; and SettingsError if *secrets* cannot be encrypted.

        Returns the row of the context's key instead when another request used that key first.
        """
        now = self.clock.now()
        ranking = await self._candidates(request)
        ready_at = await self.estimates.ready_at(request.product_name, now)
        placement = expected_placement(ranking, request.gpu_num)
        reservation = self.budgets.amount(request, placement, now)
        instance = replace(
            self._new_instance(request, placement, context, now=now, labels=labels, lease=lease),
            reservation=reservation,
            protected=protected,
        )
        created = self._created(instance, context, ready_at=ready_at)
        row = None if context.key is None else context.key.row(created.response)
        line = context.line(at=now, instance_id=created.instance.id)
        sealed = await self._sealed(instance, secrets) if secrets else None
        wanted = wanted_by(instance, reservation)
        outcome = await self._batcher.add(
            _PendingCreate(created=created, row=row, line=line, sealed=sealed, wanted=wanted)
        )
        if isinstance(outcome, BudgetRefusal):
            raise refused(outcome)
        return outcome

    async def _sealed(self, instance: Instance, secrets: Sequence[EnvironmentVariable]) -> SealedSecrets:
        """
        Raises SettingsError when there is no usable key, or creates wait with secrets of another key.

        A new key beside theirs would leave some of them without their key, whichever file is then put in place.
        """
        async with self.database.connection() as connection:
            problem = self.secret_key.problem(await sealed_secrets.keys_needed(connection))
        if problem is not None:
            raise SettingsError(problem, code=KEY_UNUSABLE)
        return self.secret_key.load_or_create().seal(instance.id, {each.key: each.value for each in secrets})

    async def _candidates(self, request: CreateRequest) -> Ranking:
        or_short = bool(request.wait_for_capacity_seconds)
        if request.container is not None or request.secret_names:
            _, wanted = await resolve(self.catalog, request)
            await check_regions(self.catalog, wanted)
            return await self.catalog.candidates(wanted, or_short=or_short)
        wanted, template = placement_request(request), self.catalog.template(request.template_id)
        if self.catalog.has_template(request.template_id):  # cached: no call to run at the same time
            await template
            return await self.catalog.candidates(wanted, or_short=or_short)
        ranking, _ = await asyncio.gather(self.catalog.candidates(wanted, or_short=or_short), template)
        return ranking

    def _new_instance(
        self,
        request: CreateRequest,
        placement: Placement,
        context: CommandContext,
        *,
        now: datetime,
        labels: Labels,
        lease: Lease | None,
    ) -> Instance:
        return requested(
            request,
            placement,
            instance_id=InstanceId(f"inst_{self.new_id()}"),
            operation_id=OperationId(f"op_{self.new_id()}"),
            now=now,
            created_by=context.caller,
            labels=labels,
            lease=lease,
        )

    def _created(self, instance: Instance, context: CommandContext, *, ready_at: datetime) -> CreatedInstance:
        tracing.note_instance(instance.id)
        operation = new_operation(
            OperationKind.CREATE,
            instance,
            instance.created_at,
            correlation_id=context.correlation_id,
            traceparent=context.traceparent,
        )
        response = created_response(instance, estimated_ready_at=ready_at)
        return CreatedInstance(instance=instance, operation=operation, estimated_ready_at=ready_at, response=response)

    async def _record(self, group: Sequence[_PendingCreate]) -> list[CreatedInstance | KeyRow | BudgetRefusal]:
        """Record a group of creates, except those whose key another request used first, or that a budget refuses."""
        # This runs in the context of another request of the group; the jobs of the others must not carry its ids.
        cause = group[0].created.operation if len(group) == 1 else None
        caused_by, span = (None, None) if cause is None else (cause.correlation_id, cause.traceparent)
        with structlog.contextvars.bound_contextvars(correlation_id=caused_by), tracing.under(span):
            return await self._record_group(group)

    async def _record_group(self, group: Sequence[_PendingCreate]) -> list[CreatedInstance | KeyRow | BudgetRefusal]:
        outcomes: list[CreatedInstance | KeyRow]
        if any(each.row is not None for each in group):
            async with self.database.transaction() as connection:
                outcomes = await self._claimed(connection, group)
                fresh = [each for each, outcome in zip(group, outcomes, strict=True) if outcome is each.created]
                refusals = await self._add(connection, fresh)
                unsent = [each.row for each in fresh if each.created.instance.id in refusals and each.row is not None]
                if unsent:
                    await idempotency.give_back(connection, unsent)
        else:
            outcomes = [each.created for each in group]
            async with self.database.connection() as connection:
                refusals = await self._add(connection, group)
        self.caches.clear(CacheName.MERGED_LISTING)
        return [
            outcome if isinstance(outcome, KeyRow) else refusals.get(outcome.instance.id, outcome)
            for outcome in outcomes
        ]

    async def _add(self, connection: Connection, fresh: Sequence[_PendingCreate]) -> Mapping[InstanceId, BudgetRefusal]:
        """Record those of *fresh* that the budgets allow; returns why the others are refused, by instance."""
        if not fresh or await self._write(connection, fresh, is_counted=False):
            return {}
        async with ensure_transaction(connection):
            whys = await self.budgets.count(connection, [each.wanted for each in fresh], self.clock.now())
            admitted = [each for each, why in zip(fresh, whys, strict=True) if why is None]
            if admitted:
                await self._write(connection, admitted, is_counted=True)
        found = zip(fresh, whys, strict=True)
        return {each.created.instance.id: why for each, why in found if why is not None}

    async def _write(self, connection: Connection, fresh: Sequence[_PendingCreate], *, is_counted: bool) -> bool:
        """Write *fresh*; without *is_counted* only if they certainly fit into every budget, else it returns False."""
        now, new = self.clock.now(), [each.created.instance for each in fresh]
        due, amounts = now + REMIND_AFTER, sums_by_scope([each.wanted for each in fresh])
        first = (
            instances.add(new, wake_at=due)
            if is_counted
            else instances.add_reserving(new, amounts, now=now, wake_at=due)
        )
        writes = [
            first,
            audit.append([each.line for each in fresh], if_=first.name),
            operations.add([each.created.operation for each in fresh], if_=first.name),
            self.queue.add([_create_job(each.created) for each in fresh], if_=first.name),
        ]
        sealed = [each.sealed for each in fresh if each.sealed is not None]
        if sealed:
            writes.append(sealed_secrets.add(sealed, if_=first.name))
        return await self.event_publisher.write(
            connection, writes, [Change(before=None, after=i, because="requested", at=now) for i in new]
        )

    async def _claimed(self, connection: Connection, group: Sequence[_PendingCreate]) -> list[CreatedInstance | KeyRow]:
        """The outcome of each create: itself, or the row that another request left under its key."""
        rows = [each.row for each in group if each.row is not None]
        kept = iter(await idempotency.keep(connection, rows, self.clock.now()) if rows else [])
        outcomes: list[CreatedInstance | KeyRow] = []
        for each in group:
            row = None if each.row is None else next(kept)
            outcomes.append(each.created if row is None or row is each.row else row)
        return outcomes


def _create_job(created: CreatedInstance) -> NewJob:
    instance, caused_by = created.instance, created.operation.correlation_id
    request, placement = instance.request, instance.placement
    payload = {
        **about(instance),
        "name": request.name,
        "productName": request.product_name,
        "templateId": request.template_id or None,
        "gpuNum": request.gpu_num,
        "rootfsSize": request.rootfs_gb,
        "region": request.regions[0] if placement is None else placement.region,
    }
    return NewJob(type="create_instance", payload=payload | ({} if caused_by is None else {CORRELATION: caused_by}))
