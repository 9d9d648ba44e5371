"""
Recording a create call: its intent before it is sent, and how it ended, whatever became of the record meanwhile.

An id that the provider returned is always recorded: a machine whose id is lost is billed until its name is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from corral.base.log import log
from corral.domain.errors import CloudTransientError, Failure, IllegalTransitionError, StaleError, StoreUnavailableError
from corral.domain.events import starts_to_wait
from corral.domain.instance import Instance
from corral.domain.lifecycle.creation import (
    NOT_CARRIED_OUT,
    held_up,
    in_doubt,
    intended,
    next_wait,
    not_created,
    retried_until,
    waited_too_long,
)
from corral.domain.lifecycle.transitions import created, gave_up, with_provider_id
from corral.domain.placement.rank import Candidate
from corral.domain.records import replace
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.engine.runtime import Runtime
from corral.store.session.database import driver_errors
from corral.store.tables import instances, operations


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOutcomes:
    """Records create calls."""

    runtime: Runtime
    recorder: Recorder

    async def intend(self, context: ReconcileContext, instance: Instance, candidate: Candidate) -> Instance:
        """Record that a create call for *candidate* is about to be sent, under a new name."""
        now = self.runtime.clock.now()
        intent = Transition(intended(instance, candidate, now), "about to create")
        return await self.recorder.write(context, instance, intent, now=now, wake_at=now + self.runtime.policy.settle)

    async def clear(self, context: ReconcileContext, instance: Instance, because: str) -> Instance:
        """Record that the call certainly created nothing."""
        return await self._record(context, instance, lambda current, _: not_created(current), because)

    async def doubt(self, context: ReconcileContext, instance: Instance, because: str) -> Instance:
        """Record that the call is over and may have created a machine."""
        return await self._record(context, instance, in_doubt, because)

    async def hold_up(
        self, context: ReconcileContext, instance: Instance, error: CloudTransientError, *, was_called: bool = False
    ) -> None:
        """
        Record why nothing could be created for now, unless that is recorded already.

        *was_called*: this ends a create call. Otherwise an earlier call may be in doubt, which must stay recorded.
        """

        def change(current: Instance, _: datetime) -> Instance:
            return held_up(not_created(current) if was_called else current, error.message)

        waits = change(instance, self.runtime.clock.now())
        if waits == instance:
            return
        if starts_to_wait(instance, waits):
            tries = 0 if instance.waiting is None else instance.waiting.tries
            log.info("instance.waiting", code=NOT_CARRIED_OUT, why=error.message, tries=tries)
        await self._record(context, instance, change, error.message)

    async def give_up(
        self, context: ReconcileContext, instance: Instance, obstacle: Failure, after: float | None = None
    ) -> Instance:
        """Record why nothing was created: the create is tried again later if that may pass, else the instance fails."""
        now = self.runtime.clock.now()
        until = retried_until(instance, obstacle)
        if until is None or now >= until:
            failure = waited_too_long(obstacle)
            failed = Transition(gave_up(instance, failure, now), failure.message)
            return await self.recorder.write(context, instance, failed, now=now)
        wait = next_wait(instance, obstacle, now, pause_seconds=after)
        log.info("instance.waiting", code=obstacle.code, why=obstacle.message, tries=wait.tries)
        waits = Transition(replace(instance, waiting=wait), obstacle.message)
        return await self.recorder.write(context, instance, waits, now=now, wake_at=wait.retry_at)

    async def record_id(self, context: ReconcileContext, instance: Instance, provider_id: str) -> Instance:
        """
        Record the id that the provider returned, also if another process changed the instance meanwhile.

        Raises StaleError when this reconcile must end: the record has another id by now, or a connection was lost, and
        the lock may be too. The id is then written through another connection.
        """
        try:
            with driver_errors():
                return await self._write_id(context, instance, provider_id)
        except StoreUnavailableError as lost:
            try:
                with driver_errors():
                    await self._write_id(context, instance, provider_id)
            except StoreUnavailableError:
                log.error("instance.id_unrecorded", instance_id=instance.id, provider_id=provider_id)
                raise
            raise StaleError(f"the lock of {instance.id} was lost") from lost

    async def _write_id(self, context: ReconcileContext, instance: Instance, provider_id: str) -> Instance:
        current = instance
        while True:
            now = self.runtime.clock.now()
            made = Transition(created(current, provider_id, now), "created")
            try:
                return await self.recorder.write(context, current, made, now=now, wake_at=current.deadline_at)
            except IllegalTransitionError as error:
                # A mistake in the lifecycle must not lose a machine: its id is recorded, and the phase stays.
                log.error("instance.illegal_transition", instance_id=instance.id, why=error.message)
                only_id = Transition(with_provider_id(current, provider_id, now), "created")
                return await self.recorder.write(context, current, only_id, now=now)
            except StaleError:
                reread = await self._reread(context, instance)
                if reread is not None and reread.provider_id == provider_id:
                    return reread
                if reread is None or reread.provider_id is not None:
                    log.error("instance.id_unrecorded", instance_id=instance.id, provider_id=provider_id)
                    raise
                current = reread

    async def _record(
        self,
        context: ReconcileContext,
        instance: Instance,
        change: Callable[[Instance, datetime], Instance],
        because: str,
    ) -> Instance:
        """
        Record how the call of *instance* ended.

        Raises StaleError when another process changed it meanwhile; if the record is still about the same call, its end
        is recorded all the same, so that the next reconcile need not wait for it.
        """
        now = self.runtime.clock.now()
        try:
            ended = Transition(change(instance, now), because)
            return await self.recorder.write(
                context, instance, ended, now=now, wake_at=now + self.runtime.policy.settle
            )
        except StaleError:
            current = await self._reread(context, instance)
            if current is not None and current.create_in_doubt and current.create.number == instance.create.number:
                await self.recorder.write(context, current, Transition(change(current, now), because), now=now)
            raise

    async def _reread(self, context: ReconcileContext, instance: Instance) -> Instance | None:
        """The instance as it is recorded now; *context* gets its operation."""
        async with self.runtime.database.connection() as connection:
            current = await instances.load(connection, instance.id)
            if current is not None:
                context.operation = await operations.load(connection, current.operation_id)
        return current
