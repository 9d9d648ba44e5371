"""
Starting and restarting an instance that exists.

The intent is recorded before the call; only an observation shows that it happened. A start may be repeated, because it
does not harm an instance that runs. A restart may not, so the settle time passes before one in doubt is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from corral.base.log import log
from corral.domain.costs.meter import starting
from corral.domain.errors import (
    CloudError,
    CloudRefusedError,
    CloudShortageError,
    CloudTransientError,
    CloudUnknownError,
    Failure,
)
from corral.domain.instance import Instance, PendingAction
from corral.domain.lifecycle.phases import Action
from corral.engine.reconcile.outcome import Outcome, provider_id
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.engine.reconcile.send_check import unless_changed
from corral.engine.runtime import Runtime

OF_ACCOUNT: Final = frozenset({"INSUFFICIENT_BALANCE", "AUTHENTICATION_FAILED"})
"""Refusals that a person puts right. They keep their code while the start is repeated until its deadline."""
NO_GPU: Final = "its host has no free GPU now: start it again later, or create another; its disk is kept for some days"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """Sends starts and restarts."""

    runtime: Runtime
    recorder: Recorder

    async def start(self, context: ReconcileContext, instance: Instance) -> Outcome:
        """Send a start; raises CloudTransientError if it was certainly not carried out."""
        asked = await self._about_to_ask(context, instance)
        try:
            check = unless_changed(self.runtime.database, asked)
            await self.runtime.cloud.start(provider_id(instance), before_send=check)
        except CloudError as error:
            return await self._not_done(context, asked, error)
        return await self._answered(context, asked, asked.pending.action)

    async def restart(self, context: ReconcileContext, instance: Instance) -> Outcome:
        """Send a restart; earlier observations no longer count."""
        unseen = replace(instance, observation=replace(instance.observation, sighting=None))
        asked = await self._about_to_ask(context, unseen)
        try:
            check = unless_changed(self.runtime.database, asked)
            await self.runtime.cloud.restart(provider_id(instance), before_send=check)
        except CloudError as error:
            return await self._not_done(context, asked, error)
        return await self._answered(context, asked, action=None)

    async def _about_to_ask(self, context: ReconcileContext, instance: Instance) -> Instance:
        now = self.runtime.clock.now()
        pending = replace(instance.pending, sent_at=now, attempts=instance.pending.attempts + 1)
        observation = replace(instance.observation, meter=starting(instance.observation.meter, now))
        asking = Transition(replace(instance, pending=pending, observation=observation), "about to ask")
        return await self.recorder.write(context, instance, asking, now=now, wake_at=now + self.runtime.policy.settle)

    async def _answered(self, context: ReconcileContext, asked: Instance, action: Action | None) -> Outcome:
        pending = replace(asked.pending, action=action, refused=None)
        written = await self._write(context, asked, pending, "the provider was asked, and agreed")
        return Outcome(instance=written, requeue_after=self.runtime.policy.settle)

    async def _not_done(self, context: ReconcileContext, asked: Instance, error: CloudError) -> Outcome:
        match error:
            case CloudUnknownError():
                log.info("instance.ask_in_doubt", why=error.message)
                return Outcome(instance=asked, requeue_after=self.runtime.policy.settle)
            case CloudTransientError():
                await self._write(context, asked, replace(asked.pending, sent_at=None), "could not be asked")
                raise error
            case CloudRefusedError() if error.code in OF_ACCOUNT:
                refused = Failure(code=error.code, message=error.message)
            case CloudShortageError():
                refused = Failure(code=error.code, message=NO_GPU)
            case _:
                refused = Failure(code="STARTUP_FAILED", message=error.message)
        log.info("instance.start_refused", why=error.message)
        pending = replace(asked.pending, refused=refused)
        return Outcome(instance=await self._write(context, asked, pending, refused.message))

    async def _write(
        self, context: ReconcileContext, before: Instance, pending: PendingAction, because: str
    ) -> Instance:
        after = Transition(replace(before, pending=pending), because)
        return await self.recorder.write(context, before, after, now=self.runtime.clock.now())
