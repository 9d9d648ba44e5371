"""Sending a stop or delete. Only a later observation shows whether it had an effect (`lifecycle/pending_action.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from corral.base.log import log
from corral.domain.errors import CloudError, CloudTransientError, CloudUnknownError, Failure, StaleError
from corral.domain.instance import Instance
from corral.domain.lifecycle import pending_action
from corral.engine.reconcile.outcome import Outcome, provider_id
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.engine.reconcile.send_check import unless_changed
from corral.engine.runtime import Runtime
from corral.store.tables import instances


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDeleteStep:
    """Sends stops and deletes, and records how each call ended."""

    runtime: Runtime
    recorder: Recorder

    async def stop(self, context: ReconcileContext, instance: Instance) -> Outcome:
        """Send a stop; raises CloudTransientError if it was certainly not carried out."""

        async def call(sent: Instance) -> None:
            check = unless_changed(self.runtime.database, sent)
            await self.runtime.cloud.stop(provider_id(sent), before_send=check)

        return await self._send(context, instance, call)

    async def delete(self, context: ReconcileContext, instance: Instance) -> Outcome:
        """Send a delete; raises CloudTransientError if it was certainly not carried out."""
        return await self._send(context, instance, lambda sent: self.runtime.cloud.delete(provider_id(sent)))

    async def _send(
        self, context: ReconcileContext, instance: Instance, call: Callable[[Instance], Awaitable[bool | None]]
    ) -> Outcome:
        """
        Record that *call* is about to be sent, send it, and record how it ended.

        After a call that was certainly not carried out, the record is as before, with the reason.
        """
        sent = await self._write(
            context, instance, pending_action.sending(instance, self.runtime.clock.now()), "about to ask"
        )
        refused: Failure | None = None
        accepted = False
        try:
            accepted = await call(sent) is not False
        except CloudTransientError as error:
            why = Failure(code=error.code, message=error.message)
            await self._end(context, sent, lambda known: pending_action.not_sent(known, instance, why), error.message)
            if error.retry_after_seconds is None:
                error.retry_after_seconds = self.runtime.policy.poll.total_seconds()
            raise
        except CloudUnknownError as error:
            log.info("instance.ask_in_doubt", instance_id=instance.id, why=error.message)
        except CloudError as error:
            # Sent again for as long as it takes: a machine that cannot be deleted is a bill that must be seen.
            log.error("instance.ask_refused", instance_id=instance.id, why=error.message)
            refused = Failure(code=error.code, message=error.message)
        now = self.runtime.clock.now()
        because = "the provider was asked" if refused is None else refused.message

        def answered(known: Instance) -> Instance:
            return pending_action.answered(known, now, refused, accepted=accepted)

        ended = await self._end(context, sent, answered, because)
        return Outcome(instance=ended, requeue_after=self.runtime.policy.repeat_after)

    async def _end(
        self, context: ReconcileContext, sent: Instance, end: Callable[[Instance], Instance], because: str
    ) -> Instance:
        """Record how the call ended, also if an observation was recorded during the call."""
        try:
            return await self._write(context, sent, end(sent), because)
        except StaleError:
            async with self.runtime.database.connection() as connection:
                known = await instances.load(connection, sent.id)
            if known is None or known.operation_id != sent.operation_id:
                raise
            if known.pending.sent_at != sent.pending.sent_at:
                raise
            return await self._write(context, known, end(known), because)

    async def _write(self, context: ReconcileContext, before: Instance, after: Instance, because: str) -> Instance:
        now = self.runtime.clock.now()
        wake_at = now + self.runtime.policy.repeat_after
        return await self.recorder.write(context, before, Transition(after, because), now=now, wake_at=wake_at)
