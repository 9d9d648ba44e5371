"""
What is done about an instance: one short function an action.

Each answers the instance as it is then, and when to look again if nothing is heard. What is about to be asked is
recorded before it is asked; what came of it is recorded after. No transaction is open while the provider is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import assert_never

from corral.clock import Clock
from corral.cloud.port import Cloud
from corral.domain.catalog import PortKind
from corral.domain.decide import Policy
from corral.domain.errors import CloudError, CloudRefusedError, CloudUnknownError
from corral.domain.health import CheckAgain, GivenUp, Passed, judge
from corral.domain.instance import Failure, Instance, Ways
from corral.domain.lifecycle import Action, Goal, Phase
from corral.domain.sighting import ProviderInstance, Sighting
from corral.domain.survey import found_unlisted
from corral.engine.births import Births
from corral.engine.glimpses import Glimpses
from corral.engine.outcome import Outcome, provider_id
from corral.engine.record import Hold, Recorder, Step
from corral.engine.starts import Starts
from corral.health.probe import Prober
from corral.telemetry import log


@dataclass(frozen=True, slots=True, kw_only=True)
class Acts:
    """Does what was decided."""

    cloud: Cloud
    births: Births
    starts: Starts
    prober: Prober
    recorder: Recorder
    clock: Clock
    policy: Policy
    roll: Callable[[], float]
    glimpses: Glimpses = field(default_factory=Glimpses)
    """What the observer of this process just saw of single instances."""

    async def do(self, action: Action, hold: Hold, instance: Instance) -> Outcome:
        """Do *action*; may raise CloudTransientError (later) and StaleError (somebody else moved it: look anew)."""
        match action:
            case Action.CREATE:
                return Outcome(instance=await self.births.create(hold, instance))
            case Action.FIND:
                return Outcome(instance=instance)  # the observer looks for the name in every listing
            case Action.INSPECT:
                return await self.inspect(hold, instance)
            case Action.PROBE:
                return await self._probe(hold, instance)
            case Action.CONFIRM:
                return await self._confirm(hold, instance)
            case Action.START:
                return await self.starts.start(hold, instance)
            case Action.RESTART:
                return await self.starts.restart(hold, instance)
            case Action.STOP:
                return await self._ask(hold, instance, self.cloud.stop)
            case Action.DELETE:
                return await self._ask(hold, instance, self.cloud.delete)
            case _:
                assert_never(action)

    async def inspect(
        self, hold: Hold, instance: Instance, entered: Step | None = None, look_at: datetime | None = None
    ) -> Outcome:
        """
        Learn the endpoints and the ways in; it is probed once every endpoint has an address.

        A look changes nothing at the provider, so the phase *entered* by this pass is written down together with what
        was seen, and with the reminder to look again at *look_at*.
        """
        steps = () if entered is None else (entered,)
        current = instance if entered is None else entered.after
        try:
            seen = self.glimpses.take(instance, self.clock.now()) or await self.cloud.instance(provider_id(instance))
        except CloudRefusedError as error:
            log.error("instance.look_refused", why=error.message)
            written = await self._write(hold, instance, *steps)
            return Outcome(instance=written, look_again=self.policy.repeat_after)
        except CloudError:
            await self._write(hold, instance, *steps)
            raise
        now = self.clock.now()
        if seen is None:
            missing = replace(current, missing_since=current.missing_since or now)
            return Outcome(instance=await self._write(hold, instance, *steps, Step(missing, "not found by its id")))
        known = sighted(current, seen, self.clock)
        if seen.sighting is not Sighting.RUNNING:
            return Outcome(instance=await self._write(hold, instance, *steps, Step(known, "seen")))
        if any(e.address is None for e in seen.endpoints if e.kind is not PortKind.UDP):
            written = await self._write(hold, instance, *steps)
            failed = written.phase is Phase.FAILED
            return Outcome(instance=written, look_again=self.policy.second_look if failed else self.policy.poll)
        checking = replace(
            known,
            endpoints=seen.endpoints,
            ways=_ways(seen),
            health=None,
            failure=None,
            phase=Phase.HEALTH_CHECKING,
            phase_since=now,
        )
        found = Step(checking, "its endpoints are known")
        return Outcome(instance=await self._write(hold, instance, *steps, found, look_at=look_at))

    async def _probe(self, hold: Hold, instance: Instance) -> Outcome:
        """Check every endpoint once, and judge; in a hurry, only if they answer soon."""
        try:
            async with asyncio.timeout(self.policy.hurry.total_seconds() if hold.in_a_hurry else None):
                report = await self.prober.check(instance.endpoints, instance.health_spec, previous=instance.health)
        except TimeoutError:
            return Outcome(instance=instance, look_again=timedelta(0))
        now = self.clock.now()
        probed = replace(instance, health=report)
        match judge(report, instance.health_spec, now=now, roll=self.roll()):
            case Passed():
                ready = replace(
                    probed, phase=Phase.READY, phase_since=now, ready_at=instance.ready_at or now, deadline_at=None
                )
                return Outcome(instance=await self._write(hold, instance, Step(ready, "healthy")))
            case CheckAgain() as again:
                return Outcome(
                    instance=await self._write(hold, instance, Step(probed, "not healthy yet")),
                    look_again=again.after,
                )
            case GivenUp() as given_up:
                failure = Failure(code=given_up.code, message=given_up.message)
                failed = replace(probed, phase=Phase.FAILED, phase_since=now, failure=failure)
                return Outcome(instance=await self._write(hold, instance, Step(failed, failure.message)))

    async def _confirm(self, hold: Hold, instance: Instance) -> Outcome:
        """Ask directly for one that is missing in the list; its absence is confirmed by enough such answers."""
        seen = await self.cloud.instance(provider_id(instance))
        now = self.clock.now()
        if seen is not None:
            there = sighted(instance, seen, self.clock)
            if instance.missing_since is not None:
                there = found_unlisted(there, now)
            found = await self._write(hold, instance, Step(there, "found by its id"))
            return Outcome(instance=found)
        checks = instance.missing_checks + 1
        missing = replace(instance, missing_checks=checks, missing_checked_at=now)
        if instance.goal is Goal.GONE or checks >= self.policy.vanish_checks:
            missing = replace(missing, sighting=Sighting.ABSENT, word="gone", sighted_at=now)
        return Outcome(instance=await self._write(hold, instance, Step(missing, "not found by its id")))

    async def _ask(self, hold: Hold, instance: Instance, ask: Callable[[str], object]) -> Outcome:
        """Record that the provider is about to be asked, and ask; only a later sighting tells whether it helped."""
        now = self.clock.now()
        asked = await self.recorder.write(
            hold,
            instance,
            Step(replace(instance, acted_at=now), "about to ask"),
            now=now,
            look_again=self.policy.repeat_after,
        )
        try:
            await ask(provider_id(instance))  # type: ignore[misc]  # an async method of the port
        except CloudUnknownError as error:
            log.info("instance.ask_in_doubt", instance_id=instance.id, why=error.message)
        except CloudRefusedError as error:
            # Asked again for as long as it takes: a machine that cannot be deleted is a bill somebody must see.
            log.error("instance.ask_refused", instance_id=instance.id, why=error.message)
        return Outcome(instance=asked, look_again=self.policy.repeat_after)

    async def _write(self, hold: Hold, before: Instance, *steps: Step, look_at: datetime | None = None) -> Instance:
        if not steps:
            return before
        now = self.clock.now()
        look_again = None if look_at is None else look_at - now
        return await self.recorder.write(hold, before, *steps, now=now, look_again=look_again)


def sighted(instance: Instance, seen: ProviderInstance, clock: Clock) -> Instance:
    """The instance with what the provider now says of it."""
    return replace(
        instance,
        sighting=seen.sighting,
        word=seen.word,
        sighted_at=clock.now(),
        booted_at=seen.started_at or instance.booted_at,
        provider_failure=seen.failure,
        missing_since=None,
        missing_checks=0,
        missing_checked_at=None,
        unfound_since=None,
    )


def _ways(seen: ProviderInstance) -> Ways | None:
    way = seen.connection
    if way is None:
        return None
    return Ways(ssh=way.ssh_command, jupyter=way.jupyter_address, web_terminal=way.web_terminal_address)
