"""The result of a step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from corral.domain.instance import Instance, ProviderId
from corral.engine.reconcile.recorder import Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a step."""

    instance: Instance
    requeue_after: timedelta | None = None
    """When to reconcile again; None: at once if the instance changed, else after the next observation."""
    unwritten: tuple[Transition, ...] = ()
    """How *instance* changes; the first health check, which follows at once, records it."""


def provider_id(instance: Instance) -> ProviderId:
    """The provider's id of an instance that has one."""
    if instance.provider_id is None:  # pragma: no cover  # decide() asks this only of instances that have one
        raise RuntimeError(f"{instance.id} has no provider instance")
    return instance.provider_id
