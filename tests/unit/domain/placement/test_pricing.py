"""What an instance costs now."""

from __future__ import annotations

import pytest

from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.sighting import Sighting
from corral.domain.placement.pricing import is_billed


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.READY, Phase.STOPPING, Phase.DELETING])
@pytest.mark.parametrize("sighting", [None, Sighting.RUNNING])
def test_a_machine_is_billed_until_it_is_stopped_or_gone(phase: Phase, sighting: Sighting | None) -> None:
    """Also while its stop or delete is not confirmed."""
    assert is_billed(phase, sighting)


@pytest.mark.parametrize("phase", [Phase.CREATING, Phase.EXITED, Phase.TERMINATED])
def test_a_machine_that_does_not_run_is_not_billed(phase: Phase) -> None:
    """Before it exists, while it is stopped, and after it is gone."""
    assert not is_billed(phase, None)


@pytest.mark.parametrize(
    ("sighting", "expected"),
    [(None, True), (Sighting.RUNNING, True), (Sighting.EXITED, False), (Sighting.ABSENT, False)],
)
def test_a_failed_machine_is_billed_unless_it_is_seen_not_to_run(sighting: Sighting | None, *, expected: bool) -> None:
    """Without an observation the safe assumption is that it costs money."""
    assert is_billed(Phase.FAILED, sighting) is expected
