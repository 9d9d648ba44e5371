"""
The names of trial machines, by which a later run finds what an earlier one left behind.

`corral-verify-<mark>-<serial>` is no provider name of Corral's: a service in the same account treats such a machine as
one that it did not create, so it neither adopts nor reports it. The mark belongs to one data directory, and only
machines with it are deleted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

START: Final = "corral-verify-"
"""How the names of all trial machines begin."""
_MARK: Final = "[0-9a-f]{6}"
_FORM: Final = re.compile(rf"{START}({_MARK})-([0-9a-f]{{8}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialName:
    """The parts of a name."""

    mark: str
    serial: str

    def __str__(self) -> str:
        return f"{marked_start(self.mark)}{self.serial}"


def marked_start(mark: str) -> str:
    """How the names of all trial machines with *mark* begin."""
    return f"{START}{mark}-"


def parse_trial_name(name: str) -> TrialName | None:
    """The parts of *name*; None if it is not the name of a trial machine."""
    found = _FORM.fullmatch(name)
    return None if found is None else TrialName(mark=found[1], serial=found[2])


def is_mark(text: str) -> bool:
    """Whether *text* can be a mark."""
    return re.fullmatch(_MARK, text) is not None
