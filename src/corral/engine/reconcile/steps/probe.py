"""Checking the endpoints of an instance that runs, and of one that failed its health checks and may answer by now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from corral.base.log import log
from corral.domain.errors import CloudError, Failure
from corral.domain.health.checks import HealthReport, OverallHealth, judge, unmapped
from corral.domain.health.rechecks import check_time, until_recheck
from corral.domain.instance import Instance
from corral.domain.lifecycle.transitions import gave_up, healthy
from corral.domain.observation.sighting import Sighting
from corral.domain.records import replace
from corral.engine.reconcile.outcome import Outcome, provider_id
from corral.engine.reconcile.recorder import ReconcileContext, Recorder, Transition
from corral.engine.reconcile.steps.inspect import login_methods
from corral.engine.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """Makes health checks and records what they showed."""

    runtime: Runtime
    recorder: Recorder

    async def probe(self, context: ReconcileContext, instance: Instance, *earlier: Transition) -> Outcome:
        """
        Check every endpoint once and record the result, together with *earlier* changes of *instance*.

        An urgent reconcile gives up on endpoints that are slow. With *earlier* changes the first check does too: they
        are recorded then, and the endpoints checked again.
        """
        checked = earlier[-1].after if earlier else instance
        unusable = unmapped(checked.endpoints, checked.health_spec)
        if unusable is not None:
            return await self._fail(context, instance, earlier, unusable)
        is_bounded = context.urgent or bool(earlier)
        try:
            async with asyncio.timeout(self.runtime.policy.urgent_probe.total_seconds() if is_bounded else None):
                report = await self.runtime.prober.check(
                    checked.endpoints, checked.health_spec, previous=checked.health
                )
        except TimeoutError:
            return await self._slow(context, instance, earlier)
        now = self.runtime.clock.now()
        match judge(report, checked.health_spec, now=now, jitter=self.runtime.jitter()):
            case None:
                ready = Transition(healthy(checked, report, now), "healthy")
                return Outcome(instance=await self.recorder.write(context, instance, *earlier, ready, now=now))
            case timedelta() as again:
                unhealthy = Transition(replace(checked, health=report), "not healthy yet")
                wake_at = now + again + check_time(checked, self.runtime.policy)
                written = await self.recorder.write(context, instance, *earlier, unhealthy, now=now, wake_at=wake_at)
                return Outcome(instance=written, requeue_after=again)
            case Failure() as failure:
                return await self._fail(context, instance, earlier, failure, report)

    async def _slow(self, context: ReconcileContext, instance: Instance, earlier: Sequence[Transition]) -> Outcome:
        """Record *earlier*; the check is repeated, by an urgent reconcile in its turn."""
        if earlier:
            now = self.runtime.clock.now()
            # The check that follows is made by a job, which may be lost.
            wake_at = now + check_time(earlier[-1].after, self.runtime.policy)
            instance = await self.recorder.write(context, instance, *earlier, now=now, wake_at=wake_at)
        return Outcome(instance=instance, requeue_after=timedelta(0) if context.urgent else None)

    async def probe_failed(self, context: ReconcileContext, instance: Instance) -> Outcome:
        """Check once more an instance that failed its health checks and runs; it becomes ready if it is healthy."""
        endpoints, access = instance.endpoints, instance.access
        try:
            seen = await self.runtime.cloud.instance(provider_id(instance))
        except CloudError as error:
            log.info("instance.lookup_refused", why=error.message)
        else:
            if seen is not None and seen.sighting is Sighting.RUNNING:
                endpoints, access = seen.endpoints, login_methods(seen) or access
        spec = instance.health_spec
        report = await self.runtime.prober.check(endpoints, spec, previous=instance.health)
        now = self.runtime.clock.now()
        probed = replace(instance, health=report, endpoints=endpoints, access=access)
        if unmapped(endpoints, spec) is None and report.overall is OverallHealth.HEALTHY:
            ready = Transition(healthy(probed, report, now), "healthy at last")
            return Outcome(instance=await self.recorder.write(context, instance, ready, now=now))
        again = until_recheck(probed, now, self.runtime.policy)
        unhealthy = Transition(probed, "still not healthy")
        written = await self.recorder.write(context, instance, unhealthy, now=now, wake_at=now + again)
        return Outcome(instance=written, requeue_after=again)

    async def _fail(
        self,
        context: ReconcileContext,
        instance: Instance,
        earlier: Sequence[Transition],
        failure: Failure,
        report: HealthReport | None = None,
    ) -> Outcome:
        now = self.runtime.clock.now()
        checked = earlier[-1].after if earlier else instance
        failed = Transition(gave_up(checked, failure, now, report), failure.message)
        return Outcome(instance=await self.recorder.write(context, instance, *earlier, failed, now=now))
