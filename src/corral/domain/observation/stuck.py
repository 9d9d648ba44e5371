"""Which instances make no progress, why, and what is being done about it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.instance import Instance, InstanceId
from corral.domain.lifecycle.phases import COMING_UP, Goal, Phase
from corral.domain.observation.sighting import Sighting

LONGEST: Final[dict[Phase, timedelta]] = {
    Phase.DELETING: timedelta(minutes=10),
    Phase.STOPPING: timedelta(minutes=10),
    Phase.RESTARTING: timedelta(minutes=20),
    Phase.MIGRATING: timedelta(minutes=60),
}
"""How long a phase that has no deadline of its own lasts at most when all is well."""
LONGEST_DOUBT: Final = timedelta(minutes=10)
"""A create in doubt is settled by two complete listings after a minute."""
LONGEST_MISSING: Final = timedelta(minutes=10)
"""An unlisted instance is gone after two lookups half a minute apart."""
LATE: Final = timedelta(minutes=5)
"""Past its deadline by this much, an instance should have failed."""
SHORTEST: Final = min(*LONGEST.values(), LONGEST_DOUBT, LONGEST_MISSING, LATE)
"""Nothing is stuck sooner than this after it last moved."""

_ASKED_AGAIN: Final = {
    Phase.DELETING: "a delete is sent at most 4 minutes apart until it is gone; it may be billed until then",
    Phase.STOPPING: "a stop is sent at most 4 minutes apart until it has stopped; it may be billed until then",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """One instance that makes no progress."""

    instance_id: InstanceId
    phase: Phase
    since: datetime
    reason: str
    next_step: str


def stuck(instance: Instance, now: datetime) -> Stuck | None:
    """Why *instance* should have moved by now; None when it need not have."""
    if instance.phase is Phase.TERMINATED:
        return None
    for since, longest, reason, next_step in _waits(instance):
        if now - since >= longest:
            return Stuck(instance_id=instance.id, phase=instance.phase, since=since, reason=reason, next_step=next_step)
    return None


def _waits(instance: Instance) -> Iterator[tuple[datetime, timedelta, str, str]]:
    """What *instance* waits for: since when, for how long at most, why, and what is done about it."""
    seen, phase = instance.observation, instance.phase
    if seen.unlisted_since is not None and seen.sighting is not Sighting.ABSENT:
        reason = f"missing in the provider's list, and {seen.absence_checks} direct lookups did not settle it"
        next_step = "it is looked up by its id again; if it is not found it counts as gone"
        yield seen.unlisted_since, LONGEST_MISSING, reason, next_step
    if instance.create.sent_at is not None and instance.create_in_doubt:
        number = instance.create.number
        reason = f"create call {number} may have happened, and no two complete listings settled it since"
        next_step = "every listing is searched for its name; no other create call is sent before that"
        yield instance.create.sent_at, LONGEST_DOUBT, reason, next_step
    if phase in LONGEST:
        minutes = LONGEST[phase].total_seconds() / 60
        reason = f"{phase} for more than {minutes:.0f} minutes; the provider says {seen.provider_status or 'nothing'}"
        asked = _ASKED_AGAIN.get(phase) if instance.goal is not Goal.RUNNING else None
        yield instance.phase_since, LONGEST[phase], reason, asked or "it is watched; the provider has to act"
    if instance.deadline_at is not None and phase in COMING_UP:
        reason, next_step = (
            "past its deadline, and not reconciled since",
            "the next reconcile fails it; is a worker running?",
        )
        yield instance.deadline_at, LATE, reason, next_step
