"""Looking an instance up by its id after a listing lacked it, to learn whether it is gone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from corral.domain.costs.meter import gone
from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import Goal
from corral.domain.observation.compare import found_unlisted
from corral.domain.observation.observations import observed
from corral.domain.observation.sighting import Sighting
from corral.engine.reconcile.outcome import Outcome, provider_id
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.engine.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmStep:
    """Confirms an absence by as many lookups as the policy demands."""

    runtime: Runtime
    recorder: Recorder

    async def confirm(self, context: ReconcileContext, instance: Instance) -> Outcome:
        """Record what one lookup showed; the last one that is needed makes the instance ABSENT."""
        began = self.runtime.clock.now()
        seen = await self.runtime.cloud.instance(provider_id(instance))
        now, last = self.runtime.clock.now(), instance.observation
        if seen is not None:
            there = replace(instance, observation=observed(last, seen, began))
            if last.unlisted_since is not None:
                there = found_unlisted(there, now)
            result = Transition(there, "found by its id")
        else:
            checks = last.absence_checks + 1
            absent = replace(last, absence_checks=checks, absence_checked_at=now)
            if instance.goal is Goal.GONE or checks >= self.runtime.policy.vanish_checks:
                absent = replace(
                    absent,
                    sighting=Sighting.ABSENT,
                    provider_status="gone",
                    sighted_at=now,
                    meter=gone(last.meter, began),
                )
            result = Transition(replace(instance, observation=absent), "not found by its id")
        return Outcome(instance=await self.recorder.write(context, instance, result, now=now))
