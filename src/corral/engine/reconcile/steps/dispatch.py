"""
Which step does which action.

A step returns the instance as recorded, and when to reconcile it again. It records its intent before a call to the
provider and the outcome after it; no transaction is open during the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import Action, Phase
from corral.engine.observe.recent_lookups import RecentLookups
from corral.engine.reconcile.outcome import Outcome
from corral.engine.reconcile.recorder import ReconcileContext, Recorder
from corral.engine.reconcile.steps.confirm import ConfirmStep
from corral.engine.reconcile.steps.create import CreateStep
from corral.engine.reconcile.steps.inspect import InspectStep
from corral.engine.reconcile.steps.probe import ProbeStep
from corral.engine.reconcile.steps.start import StartStep
from corral.engine.reconcile.steps.stop_delete import StopDeleteStep
from corral.engine.runtime import Runtime

Step = Callable[[ReconcileContext, Instance], Awaitable[Outcome]]


@dataclass(kw_only=True)
class Steps:
    """Every step of the engine."""

    create_step: CreateStep
    runtime: Runtime
    recorder: Recorder
    recent_lookups: RecentLookups
    """Lookups that the observer of this process just made."""
    inspect_step: InspectStep = field(init=False)
    probe_step: ProbeStep = field(init=False)
    by_action: dict[Action, Step] = field(init=False)

    def __post_init__(self) -> None:
        """Make the steps that need nothing else."""
        runtime, recorder = self.runtime, self.recorder
        self.inspect_step = InspectStep(
            cloud=runtime.cloud,
            recorder=recorder,
            clock=runtime.clock,
            policy=runtime.policy,
            recent_lookups=self.recent_lookups,
        )
        probe_step = self.probe_step = ProbeStep(runtime=runtime, recorder=recorder)
        start_step = StartStep(runtime=runtime, recorder=recorder)
        stop_delete_step = StopDeleteStep(runtime=runtime, recorder=recorder)

        async def probe(context: ReconcileContext, instance: Instance) -> Outcome:
            step = probe_step.probe_failed if instance.phase is Phase.FAILED else probe_step.probe
            return await step(context, instance)

        self.by_action = {
            Action.CREATE: self.create_step.create,
            Action.PROBE: probe,
            Action.CONFIRM: ConfirmStep(runtime=runtime, recorder=recorder).confirm,
            Action.START: start_step.start,
            Action.RESTART: start_step.restart,
            Action.STOP: stop_delete_step.stop,
            Action.DELETE: stop_delete_step.delete,
        }

    async def do(self, action: Action, context: ReconcileContext, instance: Instance) -> Outcome:
        """
        Do *action*, but not INSPECT, which `inspect_step` does together with recording the phase entered.

        Raises CloudTransientError (retry later) and StaleError (the record changed: read it again).
        """
        return await self.by_action[action](context, instance)
