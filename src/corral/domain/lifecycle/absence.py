"""What follows when the provider no longer shows an instance. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from corral.domain.instance import Instance
from corral.domain.lifecycle.decision import Decision, Policy
from corral.domain.lifecycle.tables import Action, Goal, Phase
from corral.domain.observation.sighting import Sighting


def unlisted(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """A complete listing lacks it: ask directly, and, unless it was to go anyway, ask again later."""
    leaving = instance.goal is Goal.GONE
    phase = Phase.DELETING if leaving and instance.phase is not Phase.TERMINATED else instance.phase
    checked = instance.observation.absence_checked_at
    if leaving and instance.pending.sent_at is None:
        # A list may be wrong, and "not found" too: it is not called gone before it was told to go.
        because = "missing in the provider's list, and not told to go yet"
        return Decision(phase=phase, action=Action.DELETE, because=because, requeue_after=policy.repeat_after)
    due = checked is None or leaving or now - checked >= policy.vanish_gap
    return Decision(
        phase=phase,
        action=Action.CONFIRM if due else None,
        because="missing in the provider's list",
        requeue_after=policy.vanish_gap if not leaving else policy.repeat_after,
    )


def is_lookup_failed(instance: Instance) -> bool:
    """Whether it was told to go, and was not found by its id since."""
    told_to_go = instance.goal is Goal.GONE and instance.pending.sent_at is not None
    return (
        told_to_go
        and instance.observation.lookup_failed_since is not None
        and instance.observation.sighting is not Sighting.ABSENT
    )


def lookup_failed(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """
    It was told to go and seems gone, but a listing that could show its absence takes long: ask directly once more.

    That is the settle time later. A provider at odds with itself for so long cannot be told from one without it.
    """
    phase = instance.phase if instance.phase is Phase.TERMINATED else Phase.DELETING
    since = now if instance.observation.lookup_failed_since is None else instance.observation.lookup_failed_since
    wait = policy.settle - (now - since)
    if wait > timedelta(0):
        return Decision(phase=phase, action=None, because="not found by its id; looking once more", requeue_after=wait)
    because = "not found by its id for a while"
    return Decision(phase=phase, action=Action.CONFIRM, because=because, requeue_after=policy.repeat_after)
