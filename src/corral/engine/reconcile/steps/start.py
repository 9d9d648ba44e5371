"""
Starting and restarting what exists.

That it is owed, and that it is about to be asked for, is recorded before it is asked for; only a sighting shows that it
happened. A start may be repeated: one that runs already is not harmed. A restart may not, so one in doubt is given time
to show. Neither ever deletes or moves anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from corral.base.clock import Clock
from corral.base.telemetry import log
from corral.cloud.port import Cloud
from corral.domain.errors import (
    CloudError,
    CloudRefusedError,
    CloudShortageError,
    CloudTransientError,
    CloudUnknownError,
)
from corral.domain.instance import Failure, Instance
from corral.domain.lifecycle.decide import Policy
from corral.engine.reconcile.outcome import Outcome, provider_id
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition

OF_ACCOUNT: Final = frozenset({"INSUFFICIENT_BALANCE", "AUTHENTICATION_FAILED"})
"""Refusals that a person puts right. They keep their code while the start is repeated until its deadline."""
NO_GPU: Final = "its host has no free GPU now: start it again later, or create another; its disk is kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """Asks the provider to start and to restart."""

    cloud: Cloud
    recorder: Recorder
    clock: Clock
    policy: Policy

    async def start(self, hold: ReconcileContext, instance: Instance) -> Outcome:
        """Ask for a start; may raise CloudTransientError, when it certainly was not asked for."""
        asked = await self._about_to_ask(hold, instance)
        try:
            await self.cloud.start(provider_id(instance))
        except CloudError as error:
            return await self._not_done(hold, asked, error)
        return await self._answered(hold, asked, asked)

    async def restart(self, hold: ReconcileContext, instance: Instance) -> Outcome:
        """Ask for a restart; what was seen before says nothing from here on."""
        asked = await self._about_to_ask(
            hold, replace(instance, observation=replace(instance.observation, sighting=None))
        )
        try:
            await self.cloud.restart(provider_id(instance))
        except CloudError as error:
            return await self._not_done(hold, asked, error)
        return await self._answered(hold, asked, replace(asked, pending=replace(asked.pending, action=None)))

    async def _about_to_ask(self, hold: ReconcileContext, instance: Instance) -> Instance:
        now = self.clock.now()
        asking = replace(
            instance,
            pending=replace(instance.pending, sent_at=now, attempts=instance.pending.attempts + 1),
        )
        return await self.recorder.write(
            hold, instance, Transition(asking, "about to ask"), now=now, requeue_after=self.policy.settle
        )

    async def _answered(self, hold: ReconcileContext, asked: Instance, done: Instance) -> Outcome:
        agreed = Transition(
            replace(done, pending=replace(done.pending, refused=None)), "the provider was asked, and agreed"
        )
        written = await self._write(hold, asked, agreed)
        return Outcome(instance=written, requeue_after=self.policy.settle)

    async def _not_done(self, hold: ReconcileContext, asked: Instance, error: CloudError) -> Outcome:
        match error:
            case CloudUnknownError():
                log.info("instance.ask_in_doubt", why=error.message)
                return Outcome(instance=asked, requeue_after=self.policy.settle)
            case CloudTransientError():
                await self._write(
                    hold,
                    asked,
                    Transition(replace(asked, pending=replace(asked.pending, sent_at=None)), "could not be asked"),
                )
                raise error
            case CloudRefusedError() if error.code in OF_ACCOUNT:
                refused = Failure(code=error.code, message=error.message)
            case CloudShortageError():
                refused = Failure(code=error.code, message=NO_GPU)
            case _:
                refused = Failure(code="STARTUP_FAILED", message=error.message)
        log.info("instance.start_refused", why=error.message)
        written = await self._write(
            hold, asked, Transition(replace(asked, pending=replace(asked.pending, refused=refused)), refused.message)
        )
        return Outcome(instance=written)

    async def _write(self, hold: ReconcileContext, before: Instance, step: Transition) -> Instance:
        return await self.recorder.write(hold, before, step, now=self.clock.now())
