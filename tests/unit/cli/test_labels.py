"""What `corral label` makes of the labels that are there."""

from __future__ import annotations

import pytest

from corral.cli.commands.labels import changed
from corral.domain.errors import MalformedError


def test_labels_are_set_and_removed() -> None:
    """Others stay; a value may end with a minus sign; removing one that is not there is no mistake."""
    present = {"team": "vision", "env": "prod"}

    assert changed(present, ["team=audio", "env-", "gone-", "note=a-"]) == {"team": "audio", "note": "a-"}
    assert changed(present, []) == present


@pytest.mark.parametrize("change", ["team", "=x", ""])
def test_a_change_that_is_neither_is_refused(change: str) -> None:
    """Nothing is sent."""
    with pytest.raises(MalformedError, match="label"):
        changed({}, [change])
