"""Which instances make no progress, why, and what is being done about it. Pure."""

from __future__ import annotations

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
    found = (
        _unlisted(instance, now)
        or _in_doubt(instance, now)
        or _too_long_in_phase(instance, now)
        or _late(instance, now)
    )
    if found is None:
        return None
    since, reason, next_step = found
    return Stuck(instance_id=instance.id, phase=instance.phase, since=since, reason=reason, next_step=next_step)


_Finding = tuple[datetime, str, str] | None


def _unlisted(instance: Instance, now: datetime) -> _Finding:
    since = instance.observation.unlisted_since
    if since is None or instance.observation.sighting is Sighting.ABSENT or now - since < LONGEST_MISSING:
        return None
    reason = (
        f"missing in the provider's list, and {instance.observation.absence_checks} direct lookups did not settle it"
    )
    return since, reason, "it is looked up by its id again; if it is not found it counts as gone"


def _in_doubt(instance: Instance, now: datetime) -> _Finding:
    since = instance.create.sent_at
    if since is None or not instance.create_in_doubt or now - since < LONGEST_DOUBT:
        return None
    reason = f"create call {instance.create.number} may have happened, and no two complete listings settled it since"
    return since, reason, "every listing is searched for its name; no other create call is sent before that"


def _too_long_in_phase(instance: Instance, now: datetime) -> _Finding:
    longest = LONGEST.get(instance.phase)
    if longest is None or now - instance.phase_since < longest:
        return None
    reason = f"{instance.phase.value} for more than {longest.total_seconds() / 60:.0f} minutes; "
    reason += f"the provider says {instance.observation.provider_status or 'nothing'}"
    asked = _ASKED_AGAIN.get(instance.phase) if instance.goal is not Goal.RUNNING else None
    return instance.phase_since, reason, asked or "it is watched; the provider has to act"


def _late(instance: Instance, now: datetime) -> _Finding:
    due = instance.deadline_at
    if due is None or instance.phase not in COMING_UP or now - due < LATE:
        return None
    return due, "past its deadline, and not reconciled since", "the next reconcile fails it; is a worker running?"
