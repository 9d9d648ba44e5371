"""What follows from the record of an instance: the phase to record, and the action to do next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from corral.domain.instance import Failure
from corral.domain.lifecycle.tables import Action, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows from a record: the engine records *phase* and *failure* first, then does *action*."""

    phase: Phase
    action: Action | None
    because: str
    requeue_after: timedelta | None
    """When to reconcile again; None: after the next observation or command."""
    failure: Failure | None = None
    is_in_doubt: bool = False
    """Whether a create call may have happened: none is sent before its machine shows or the doubt is settled."""
