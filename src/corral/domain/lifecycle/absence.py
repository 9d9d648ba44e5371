"""The decision about an instance that a listing or a lookup no longer shows. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from corral.domain.instance import Instance
from corral.domain.lifecycle.decision import Decision
from corral.domain.lifecycle.policy import Policy
from corral.domain.lifecycle.tables import Action, Goal, Phase
from corral.domain.observation.sighting import Sighting


def unlisted(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """A complete listing lacks it: look it up, and, unless it is to be deleted, look it up again later."""
    leaving = instance.goal is Goal.GONE
    phase = Phase.DELETING if leaving and instance.phase is not Phase.TERMINATED else instance.phase
    checked = instance.observation.absence_checked_at
    if leaving and instance.pending.sent_at is None:
        # Both the list and a lookup may be wrong: it is not called gone before a delete was sent.
        because = "missing in the provider's list, and no delete was sent yet"
        return Decision(phase=phase, action=Action.DELETE, because=because, requeue_after=policy.repeat_after)
    due = checked is None or leaving or now - checked >= policy.vanish_gap
    return Decision(
        phase=phase,
        action=Action.CONFIRM if due else None,
        because="missing in the provider's list",
        requeue_after=policy.vanish_gap if not leaving else policy.repeat_after,
    )


def is_lookup_failed(instance: Instance) -> bool:
    """Whether a delete was sent, and a lookup by its id did not find it since."""
    is_delete_sent = instance.goal is Goal.GONE and instance.pending.sent_at is not None
    return (
        is_delete_sent
        and instance.observation.lookup_failed_since is not None
        and instance.observation.sighting is not Sighting.ABSENT
    )


def lookup_failed(instance: Instance, now: datetime, policy: Policy) -> Decision:
    """
    A delete was sent and a lookup did not find it, but no listing confirmed that yet: look it up once more.

    That is after the settle time: an inconsistent provider cannot be distinguished from a deleted instance then.
    """
    phase = instance.phase if instance.phase is Phase.TERMINATED else Phase.DELETING
    since = now if instance.observation.lookup_failed_since is None else instance.observation.lookup_failed_since
    wait = policy.settle - (now - since)
    if wait > timedelta(0):
        return Decision(
            phase=phase, action=None, because="not found by its id; it is looked up once more", requeue_after=wait
        )
    because = "not found by its id for a while"
    return Decision(phase=phase, action=Action.CONFIRM, because=because, requeue_after=policy.repeat_after)
