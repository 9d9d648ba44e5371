"""When users are warned that the data of a stopped instance will be purged. Pure; the rule is in `kept_data.py`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from corral.domain.instance import Instance
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.lifecycle.transitions import Decision
from corral.domain.observation import kept_data
from corral.domain.observation.sighting import Sighting

_AT_REST: Final = frozenset({Phase.EXITED, Phase.FAILED})
"""Phases in which a stopped machine stays stopped unless a user starts it."""


def expires_at(instance: Instance) -> datetime | None:
    """When the provider purges the data of *instance*; None while it is not seen stopped, or if that is not known."""
    is_stopped = instance.observation.sighting is Sighting.EXITED
    return instance.observation.data_kept_until if is_stopped else None


def with_warning(decision: Decision, instance: Instance, now: datetime) -> Decision:
    """*decision* with the warning that is due, and with a reconcile when the next one is."""
    until = expires_at(instance)
    if until is None or instance.goal is Goal.GONE or decision.phase not in _AT_REST:
        return decision
    given, notice = instance.announced_data, None
    if decision.phase is instance.phase:  # else the stop is recorded first: each event has a reason of its own
        notice = kept_data.due(until, given, now)
    at = kept_data.next_at(until, notice or given, now)
    waits = [wait for wait in (decision.requeue_after, None if at is None else at - now) if wait is not None]
    because = decision.because if notice is None else kept_data.warning(notice, now)
    return replace(decision, because=because, data_notice=notice, requeue_after=min(waits, default=None))


def purged(instance: Instance, now: datetime) -> str:
    """What to add to the message that the provider no longer has *instance*, if its data was due to be purged."""
    until = instance.observation.data_kept_until
    return f"; it was stopped, and its data was kept until {until:%Y-%m-%d %H:%M} UTC" if until and until <= now else ""
