"""Which step does which action."""

from __future__ import annotations

from typing import Any, cast

from corral.domain.lifecycle.phases import Action
from corral.engine.reconcile.steps.create import CreateStep
from corral.engine.reconcile.steps.dispatch import Steps
from corral.engine.reconcile.steps.start import StartStep

NONE = cast("Any", None)


def test_every_action_has_a_step() -> None:
    """A new action fails here until it has one; INSPECT is done by the reconciler through `inspect_step`."""
    parts: dict[str, Any] = {"cloud": NONE, "recorder": NONE, "clock": NONE, "policy": NONE}
    create_step = CreateStep(database=NONE, catalog=NONE, gate=NONE, unmade=NONE, installation="", **parts)
    start_step = StartStep(**parts)
    steps = Steps(
        create_step=create_step, start_step=start_step, prober=NONE, jitter=NONE, recent_lookups=NONE, **parts
    )

    assert set(steps.by_action) == set(Action) - {Action.INSPECT}
