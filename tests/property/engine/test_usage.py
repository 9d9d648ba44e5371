"""
The proof: in every random history of faults, kills and races the provider's bill of each instance lies within bounds.

The bill is the simulator's own; it is compared after every rule and at the end, when every grouping also adds up.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import settings
from support.engines.fault_runner import fault_environment
from support.histories.billed import BilledHistories
from support.histories.histories import Stage, play

from corral.store.server.target import DatabaseTarget

CI_HISTORIES = 150
USUAL_EXAMPLES = 100
pytestmark = pytest.mark.usefixtures("quietly")


@contextmanager
def staged(server: DatabaseTarget, **choices: Any) -> Generator[Stage]:
    with fault_environment(server, shares_clock=True, **choices) as (environment, runner):
        yield Stage(environment, runner)


@pytest.mark.timeout(1200)
def test_every_bill_lies_within_the_bounds_of_its_usage(server: DatabaseTarget) -> None:
    examples = settings().max_examples
    hurried = CI_HISTORIES * examples // USUAL_EXAMPLES
    with staged(server) as stage:
        play(
            stage, histories=hurried if examples < USUAL_EXAMPLES else max(examples, CI_HISTORIES), kind=BilledHistories
        )
    assert stage.converged == stage.begun > 0
