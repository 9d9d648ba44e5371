"""The page about backups names every outcome and everything that is lost, in the program's own words."""

from __future__ import annotations

import re
from pathlib import Path

from corral.domain.observation.rebuild import RebuildOutcome
from corral.engine.recovery.rebuild import unknowable

PAGE = (Path(__file__).parents[2] / "docs/how-to/backup.md").read_text(encoding="utf-8")


def test_every_outcome_of_a_rebuild_is_explained() -> None:
    """One row each, and none that does not exist."""
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)) == {outcome.value for outcome in RebuildOutcome}


def test_what_is_lost_is_said_as_the_command_says_it() -> None:
    """Users must not discover this on that day."""
    assert [line for line in unknowable() if f"  - {line}\n" not in PAGE] == []
