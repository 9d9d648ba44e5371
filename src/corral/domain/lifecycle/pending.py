"""Whether a start or restart that was requested has happened, as far as observations show. Pure."""

from __future__ import annotations

from corral.domain.instance import Instance
from corral.domain.lifecycle.tables import Action
from corral.domain.observation.sighting import Sighting


def has_happened(instance: Instance) -> bool:
    """
    Whether an observation since shows that the pending action was carried out, by Corral or by another client.

    A machine that restarts may be seen running before and after; `observation/observations.py` distinguishes the two.
    """
    match instance.pending.action, instance.observation.sighting:
        case (None, _) | (_, None | Sighting.ABSENT):
            return False
        case Action.START, sighting:
            return sighting is not Sighting.EXITED
        case _, sighting:
            return sighting is not Sighting.RUNNING and instance.pending.sent_at is not None


def is_awaited(instance: Instance) -> bool:
    """Whether an action is pending, and the machine exists to carry it out."""
    is_there = instance.observation.sighting is not Sighting.ABSENT
    return instance.pending.action is not None and is_there and not has_happened(instance)
