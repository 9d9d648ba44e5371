"""
A thousand instances and a small budget, for a while: nothing grows, starves, is doubled or exceeds the budget.

`make soak` does the same with ten times as many, for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.soak.report import Plan
from support.soak.run import soak

PLAN = Plan(instances=1000, seconds=25, calls_per_minute=300, seed=1)
"""Looks of eleven calls; so users and looks together use up the budget."""


@pytest.mark.timeout(600)
async def test_a_large_fleet_lives_on_a_small_budget(short_dir: Path) -> None:
    """Memory flat, everything asked for comes to be, each once, within the calls that the provider allows."""
    place = short_dir / "soak"
    place.mkdir(mode=0o711)

    report = await soak(place, PLAN)

    assert report.trouble == [], report
    assert report.looks["complete"] > 0
    assert min(report.asked[what] for what in ("create", "delete", "stop")) > 0, "nothing was requested"
