"""What a check is, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from corral.domain.verification.evidence import DiffersError, Evidence, NotSeenError

LONGEST: Final = 300
"""Characters of what was seen; an account in which everything is wrong has more to say."""


class Agreement(StrEnum):
    """Whether an assumption agrees with what was seen."""

    HOLDS = "holds"
    DIFFERS = "differs"
    NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One assumption about the provider."""

    id: str
    """Its name, which documents and issues use."""
    assumes: str
    """What Corral takes for true."""
    otherwise: str
    """What Corral does where it is not."""
    copes: bool = True
    """Whether Corral then works as promised, so that there is nothing to do."""
    setting: str | None = None
    """The setting to change then."""
    judge: Callable[[Evidence], str]
    """Returns what was seen if it holds; raises DiffersError or NotSeenError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """What one check found."""

    check: Check
    agreement: Agreement
    seen: str

    @property
    def needs_action(self) -> bool:
        """Whether it differs in a way that Corral does not cope with."""
        return self.agreement is Agreement.DIFFERS and not self.check.copes


def judged(checks: Iterable[Check], evidence: Evidence) -> tuple[CheckFinding, ...]:
    """What each of *checks* finds in *evidence*."""
    return tuple(_finding(check, evidence) for check in checks)


def _finding(check: Check, evidence: Evidence) -> CheckFinding:
    try:
        agreement, seen = Agreement.HOLDS, check.judge(evidence)
    except DiffersError as error:
        agreement, seen = Agreement.DIFFERS, str(error)
    except NotSeenError as error:
        agreement, seen = Agreement.NOT_SEEN, str(error)
    return CheckFinding(check=check, agreement=agreement, seen=seen[:LONGEST])
