"""Which step does which action."""

from __future__ import annotations

from typing import Any, cast

from support.clock.clocks import SteppedClock
from support.engines.runtime import idle_runtime

from corral.domain.lifecycle.phases import Action
from corral.engine.reconcile.steps.create import CreateStep
from corral.engine.reconcile.steps.dispatch import Steps

NONE = cast("Any", None)


def test_every_action_has_a_step() -> None:
    """A new action fails here until it has one; INSPECT is done by the reconciler through `inspect_step`."""
    runtime = idle_runtime(NONE, NONE, SteppedClock())
    create_step = CreateStep(runtime=runtime, catalog=NONE, gate=NONE, unmade=NONE, recorder=NONE, budgets=NONE)
    steps = Steps(runtime=runtime, create_step=create_step, recorder=NONE, recent_lookups=NONE)

    assert set(steps.by_action) == set(Action) - {Action.INSPECT}
