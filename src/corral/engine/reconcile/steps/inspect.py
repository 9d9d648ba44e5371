"""Looking an instance up by its id, for its endpoints and login methods: a listing does not show them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from corral.base.clock import Clock
from corral.base.log import log
from corral.cloud.port import Cloud
from corral.domain.errors import CloudError, CloudRefusedError
from corral.domain.health.rechecks import check_time
from corral.domain.instance import Instance, LoginMethods
from corral.domain.lifecycle.decide import decide
from corral.domain.lifecycle.phases import Action, Phase
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.transitions import endpoints_known
from corral.domain.observation.observations import observed
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.placement.catalog import PortKind
from corral.domain.records import replace
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.reconcile.outcome import Outcome, provider_id
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectStep:
    """Records the endpoints of an instance once each has an address; then its health is checked."""

    cloud: Cloud
    recorder: Recorder
    clock: Clock
    policy: Policy
    recent_lookups: RecentLookups

    async def inspect(
        self,
        context: ReconcileContext,
        instance: Instance,
        entered: Transition | None = None,
        wake_at: datetime | None = None,
    ) -> Outcome:
        """
        Look the instance up and record what was seen; endpoints to check are returned, to be recorded by the check.

        A lookup changes nothing at the provider, so the phase *entered* by this reconcile is written together with what
        was seen, and with *wake_at*. Raises CloudError, with that phase written, if the provider cannot be asked.
        """
        earlier = () if entered is None else (entered,)
        current = instance if entered is None else entered.after
        began = self.clock.now()
        seen = self.recent_lookups.take(instance, began)
        if seen is not None:
            began = instance.observation.sighted_at or began
        try:
            seen = seen or await self.cloud.instance(provider_id(instance), awaited=True)
        except CloudRefusedError as error:
            log.error("instance.lookup_refused", why=error.message)
            written = await self._write(context, instance, *earlier)
            return Outcome(instance=written, requeue_after=self.policy.repeat_after)
        except CloudError:
            await self._write(context, instance, *earlier)
            raise
        now = self.clock.now()
        if seen is None:
            unlisted_since = current.observation.unlisted_since or now
            absent = replace(current, observation=replace(current.observation, unlisted_since=unlisted_since))
            found = Transition(absent, "not found by its id")
            return Outcome(instance=await self._write(context, instance, *earlier, found))
        known = replace(current, observation=observed(current.observation, seen, began))
        if seen.sighting is not Sighting.RUNNING:
            return Outcome(instance=await self._write(context, instance, *earlier, Transition(known, "seen")))
        if any(e.address is None for e in seen.endpoints if e.kind is not PortKind.UDP):
            written = await self._write(context, instance, *earlier)
            failed = written.phase is Phase.FAILED
            return Outcome(instance=written, requeue_after=self.policy.failed_interval if failed else self.policy.poll)
        checking = endpoints_known(known, seen.endpoints, login_methods(seen), now)
        found = Transition(checking, "its endpoints are known")
        if decide(checking, now, self.policy).action is Action.PROBE:
            return Outcome(instance=instance, unwritten=(*earlier, found))
        # What follows is done by a job, which may be lost.
        checked_by = now + check_time(instance, self.policy)
        wake_at = checked_by if wake_at is None else min(wake_at, checked_by)
        return Outcome(instance=await self._write(context, instance, *earlier, found, wake_at=wake_at))

    async def _write(
        self, context: ReconcileContext, before: Instance, *transitions: Transition, wake_at: datetime | None = None
    ) -> Instance:
        if not transitions:
            return before
        return await self.recorder.write(context, before, *transitions, now=self.clock.now(), wake_at=wake_at)


def login_methods(seen: ProviderInstance) -> LoginMethods | None:
    """How a person logs in, without passwords; None if the provider did not say."""
    way = seen.connection
    if way is None:
        return None
    return LoginMethods(ssh=way.ssh_command, jupyter=way.jupyter_address, web_terminal=way.web_terminal_address)
