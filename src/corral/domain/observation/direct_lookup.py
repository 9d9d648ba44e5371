"""
Which instances are looked up by their ids, and when. Pure.

A listing shows all instances for one call a page. If that takes long (many pages, a low rate limit), the few instances
that change are looked up as well, one call each, and so are those that no page showed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle.phases import IN_MOTION, Goal, Phase
from corral.domain.lifecycle.policy import Policy

AWAITED = IN_MOTION - {Phase.RUNNING, Phase.HEALTH_CHECKING}
"""Phases that only an observation ends; in the others a reconcile looks the instance up."""

UNSEEN_CYCLES: Final = 1.1
"""
How many times the list was read, as it were, when a machine that no page showed is looked up.

Less than 1, and machines are looked up that the next page would show; more, and one that has vanished is noticed later.
"""


def longest_unseen(seen_at: Mapping[ProviderId, float], now: float, cycle_seconds: float) -> list[ProviderId]:
    """The machines that were last *seen_at* longer ago than the list takes to be read, the longest unseen first."""
    before = now - cycle_seconds * UNSEEN_CYCLES
    return sorted((each for each, at in seen_at.items() if at < before), key=lambda each: (seen_at[each], each))


def due_for_lookup(
    moving: Iterable[Instance], looked_up_at: Mapping[InstanceId, datetime], now: datetime, policy: Policy
) -> list[Instance]:
    """Those of *moving* that are due for a lookup, the longest due first."""
    due = ((_due(instance, looked_up_at.get(instance.id), policy), instance) for instance in moving)
    found = [(at, instance.id, instance) for at, instance in due if at is not None and at <= now]
    return [instance for _, _, instance in sorted(found, key=lambda each: each[:2])]


def _due(instance: Instance, looked_up_at: datetime | None, policy: Policy) -> datetime | None:
    """When to look it up; None: not before something else happens."""
    if instance.provider_id is None or instance.phase not in AWAITED:
        return None
    if instance.observation.unlisted_since is not None or instance.observation.lookup_failed_since is not None:
        return None  # a reconcile looks it up
    if instance.pending.sent_at is None and (instance.goal is not Goal.RUNNING or instance.pending.action is not None):
        return None  # nothing was sent yet
    since = max(instance.phase_since, instance.pending.sent_at or instance.phase_since)
    if looked_up_at is None or looked_up_at < since:
        return since + policy.first_lookup
    return looked_up_at + min(max(looked_up_at - since, policy.first_lookup), policy.last_lookup)
