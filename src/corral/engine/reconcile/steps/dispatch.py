"""
What is done about an instance: one short function an action.

Each answers the instance as it is then, and when to look again if nothing is heard. What is about to be asked is
recorded before it is asked; what came of it is recorded after. No transaction is open while the provider is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import assert_never

from corral.base.clock import Clock
from corral.base.telemetry import log
from corral.cloud.port import Cloud
from corral.domain.errors import CloudError, CloudRefusedError, CloudTransientError, CloudUnknownError, StaleError
from corral.domain.health.checks import CheckAgain, GivenUp, HealthReport, OverallHealth, Passed, judge, unmapped
from corral.domain.health.rechecks import check_time, until_recheck
from corral.domain.instance import Failure, Instance, LoginMethods
from corral.domain.lifecycle import release
from corral.domain.lifecycle.decision import Policy
from corral.domain.lifecycle.tables import Action, Goal, Phase
from corral.domain.lifecycle.transitions import endpoints_known, gave_up, healthy
from corral.domain.observation.compare import found_unlisted
from corral.domain.observation.observations import observed
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.placement.catalog import PortKind
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.reconcile.outcome import Outcome, provider_id
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.engine.reconcile.steps.create import CreateStep
from corral.engine.reconcile.steps.start import StartStep
from corral.health.probe import Prober
from corral.store.tables import instances


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Does what was decided."""

    cloud: Cloud
    create_step: CreateStep
    start_step: StartStep
    prober: Prober
    recorder: Recorder
    clock: Clock
    policy: Policy
    jitter: Callable[[], float]
    recent_lookups: RecentLookups = field(default_factory=RecentLookups)
    """What the observer of this process just saw of single instances."""

    async def do(self, action: Action, hold: ReconcileContext, instance: Instance) -> Outcome:
        """Do *action*; may raise CloudTransientError (later) and StaleError (somebody else moved it: look anew)."""
        match action:
            case Action.CREATE:
                return Outcome(instance=await self.create_step.create(hold, instance))
            case Action.INSPECT:
                return await self.inspect(hold, instance)
            case Action.PROBE:
                probe = self._probe_late if instance.phase is Phase.FAILED else self._probe
                return await probe(hold, instance)
            case Action.CONFIRM:
                return await self._confirm(hold, instance)
            case Action.START:
                return await self.start_step.start(hold, instance)
            case Action.RESTART:
                return await self.start_step.restart(hold, instance)
            case Action.STOP | Action.DELETE:
                call = self.cloud.stop if action is Action.STOP else self.cloud.delete
                return await self._release(hold, instance, call)
            case _:
                assert_never(action)

    async def inspect(
        self,
        hold: ReconcileContext,
        instance: Instance,
        entered: Transition | None = None,
        wake_at: datetime | None = None,
    ) -> Outcome:
        """
        Learn the endpoints and the ways in; it is probed once every endpoint has an address.

        A look changes nothing at the provider, so the phase *entered* by this pass is written down together with what
        was seen, and with the reminder to look again at *wake_at*.
        """
        steps = () if entered is None else (entered,)
        current = instance if entered is None else entered.after
        try:
            seen = self.recent_lookups.take(instance, self.clock.now()) or await self.cloud.instance(
                provider_id(instance)
            )
        except CloudRefusedError as error:
            log.error("instance.look_refused", why=error.message)
            written = await self._write(hold, instance, *steps)
            return Outcome(instance=written, requeue_after=self.policy.repeat_after)
        except CloudError:
            await self._write(hold, instance, *steps)
            raise
        now = self.clock.now()
        if seen is None:
            missing = replace(
                current,
                observation=replace(current.observation, unlisted_since=current.observation.unlisted_since or now),
            )
            return Outcome(
                instance=await self._write(hold, instance, *steps, Transition(missing, "not found by its id"))
            )
        known = sighted(current, seen, self.clock)
        if seen.sighting is not Sighting.RUNNING:
            return Outcome(instance=await self._write(hold, instance, *steps, Transition(known, "seen")))
        if any(e.address is None for e in seen.endpoints if e.kind is not PortKind.UDP):
            written = await self._write(hold, instance, *steps)
            failed = written.phase is Phase.FAILED
            return Outcome(instance=written, requeue_after=self.policy.second_look if failed else self.policy.poll)
        checking = endpoints_known(known, seen.endpoints, _ways(seen), now)
        found = Transition(checking, "its endpoints are known")
        # The check that follows is the work of a job, which may be lost.
        checked_by = now + check_time(instance, self.policy)
        wake_at = checked_by if wake_at is None else min(wake_at, checked_by)
        return Outcome(instance=await self._write(hold, instance, *steps, found, wake_at=wake_at))

    async def _probe(self, hold: ReconcileContext, instance: Instance) -> Outcome:
        """Check every endpoint once, and judge; in a hurry, only if they answer soon."""
        given_up = unmapped(instance.endpoints, instance.health_spec)
        if given_up is not None:
            return await self._fail_checks(hold, instance, given_up)
        try:
            async with asyncio.timeout(self.policy.hurry.total_seconds() if hold.urgent else None):
                report = await self.prober.check(instance.endpoints, instance.health_spec, previous=instance.health)
        except TimeoutError:
            return Outcome(instance=instance, requeue_after=timedelta(0))
        now = self.clock.now()
        probed = replace(instance, health=report)
        match judge(report, instance.health_spec, now=now, jitter=self.jitter()):
            case Passed():
                ready = Transition(healthy(instance, report, now), "healthy")
                return Outcome(instance=await self._write(hold, instance, ready))
            case CheckAgain() as again:
                wake_at = now + again.after + check_time(instance, self.policy)
                return Outcome(
                    instance=await self._write(hold, instance, Transition(probed, "not healthy yet"), wake_at=wake_at),
                    requeue_after=again.after,
                )
            case GivenUp() as given_up:
                return await self._fail_checks(hold, instance, given_up, report)

    async def _fail_checks(
        self, hold: ReconcileContext, instance: Instance, given_up: GivenUp, report: HealthReport | None = None
    ) -> Outcome:
        failure = Failure(code=given_up.code, message=given_up.message)
        failed = gave_up(instance, failure, self.clock.now(), report)
        return Outcome(instance=await self._write(hold, instance, Transition(failed, failure.message)))

    async def _probe_late(self, hold: ReconcileContext, instance: Instance) -> Outcome:
        """Check once more an instance that failed its health checks and runs; it becomes ready when it answers."""
        endpoints, ways = instance.endpoints, instance.access
        try:
            seen = await self.cloud.instance(provider_id(instance))
        except CloudError as error:
            log.info("instance.look_refused", why=error.message)
        else:
            if seen is not None and seen.sighting is Sighting.RUNNING:
                endpoints, ways = seen.endpoints, _ways(seen) or ways
        spec = instance.health_spec
        report = await self.prober.check(endpoints, spec, previous=instance.health)
        now = self.clock.now()
        probed = replace(instance, health=report, endpoints=endpoints, access=ways)
        if unmapped(endpoints, spec) is None and report.overall is OverallHealth.HEALTHY:
            ready = Transition(healthy(probed, report, now), "healthy at last")
            return Outcome(instance=await self._write(hold, instance, ready))
        again = until_recheck(probed, now, self.policy)
        written = await self._write(hold, instance, Transition(probed, "still not healthy"), wake_at=now + again)
        return Outcome(instance=written, requeue_after=again)

    async def _confirm(self, hold: ReconcileContext, instance: Instance) -> Outcome:
        """Ask directly for one that is missing in the list; its absence is confirmed by enough such answers."""
        seen = await self.cloud.instance(provider_id(instance))
        now = self.clock.now()
        if seen is not None:
            there = sighted(instance, seen, self.clock)
            if instance.observation.unlisted_since is not None:
                there = found_unlisted(there, now)
            found = await self._write(hold, instance, Transition(there, "found by its id"))
            return Outcome(instance=found)
        checks = instance.observation.absence_checks + 1
        missing = replace(
            instance,
            observation=replace(instance.observation, absence_checks=checks, absence_checked_at=now),
        )
        if instance.goal is Goal.GONE or checks >= self.policy.vanish_checks:
            missing = replace(
                missing,
                observation=replace(
                    missing.observation, sighting=Sighting.ABSENT, provider_status="gone", sighted_at=now
                ),
            )
        return Outcome(instance=await self._write(hold, instance, Transition(missing, "not found by its id")))

    async def _release(
        self, hold: ReconcileContext, instance: Instance, call: Callable[[str], Awaitable[bool | None]]
    ) -> Outcome:
        """
        Record that a stop or delete is about to be sent, send it, and record how the call ended.

        Only a later observation shows whether it helped. Raises CloudTransientError, with the record as it was before,
        when it certainly was not carried out.
        """
        sent = await self._write_release(hold, instance, release.sending(instance, self.clock.now()), "about to ask")
        refused: Failure | None = None
        is_accepted = False
        try:
            is_accepted = bool(await call(provider_id(instance)))
        except CloudTransientError as error:
            why = Failure(code=error.code, message=error.message)
            await self._end_release(hold, sent, lambda known: release.not_sent(known, instance, why), error.message)
            if error.retry_after_seconds is None:
                error.retry_after_seconds = self.policy.poll.total_seconds()
            raise
        except CloudUnknownError as error:
            log.info("instance.ask_in_doubt", instance_id=instance.id, why=error.message)
        except CloudError as error:
            # Sent again for as long as it takes: a machine that cannot be deleted is a bill that must be seen.
            log.error("instance.ask_refused", instance_id=instance.id, why=error.message)
            refused = Failure(code=error.code, message=error.message)
        now = self.clock.now()
        because = "the provider was asked" if refused is None else refused.message

        def end(known: Instance) -> Instance:
            return release.answered(known, now, refused, is_accepted=is_accepted)

        ended = await self._end_release(hold, sent, end, because)
        return Outcome(instance=ended, requeue_after=self.policy.repeat_after)

    async def _end_release(
        self, hold: ReconcileContext, sent: Instance, end: Callable[[Instance], Instance], because: str
    ) -> Instance:
        """Record how a stop or delete ended, also when an observation was recorded during the call."""
        try:
            return await self._write_release(hold, sent, end(sent), because)
        except StaleError:
            known = await instances.load(hold.connection, sent.id)
            if (
                known is None
                or known.pending.sent_at != sent.pending.sent_at
                or known.operation_id != sent.operation_id
            ):
                raise
            return await self._write_release(hold, known, end(known), because)

    async def _write_release(self, hold: ReconcileContext, before: Instance, after: Instance, because: str) -> Instance:
        return await self._write(
            hold, before, Transition(after, because), wake_at=self.clock.now() + self.policy.repeat_after
        )

    async def _write(
        self, hold: ReconcileContext, before: Instance, *steps: Transition, wake_at: datetime | None = None
    ) -> Instance:
        if not steps:
            return before
        now = self.clock.now()
        requeue_after = None if wake_at is None else wake_at - now
        return await self.recorder.write(hold, before, *steps, now=now, requeue_after=requeue_after)


def sighted(instance: Instance, seen: ProviderInstance, clock: Clock) -> Instance:
    """The instance with what the provider now says of it."""
    return replace(instance, observation=observed(instance.observation, seen, clock.now()))


def _ways(seen: ProviderInstance) -> LoginMethods | None:
    way = seen.connection
    if way is None:
        return None
    return LoginMethods(ssh=way.ssh_command, jupyter=way.jupyter_address, web_terminal=way.web_terminal_address)
