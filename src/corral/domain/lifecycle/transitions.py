"""
Every change of an instance's phase, by name. Pure: each function returns the changed instance.

The engine's steps and commands call these; the phase of an instance is assigned nowhere else. Which phase may follow
which is in `TRANSITIONS` (`tables.py`): `check_transition` raises for any other pair, and every writer of instances
calls it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from corral.domain.costs.meter import expected
from corral.domain.errors import Failure, IllegalTransitionError
from corral.domain.health.checks import HealthReport
from corral.domain.instance import (
    CreateRequest,
    Instance,
    InstanceId,
    Labels,
    LoginMethods,
    OperationId,
    PendingAction,
    Placement,
    ProviderId,
)
from corral.domain.leases.changes import new_state
from corral.domain.leases.lease import Lease
from corral.domain.lifecycle.pending_action import has_happened
from corral.domain.lifecycle.phases import COMING_UP, Action, Goal, Phase
from corral.domain.lifecycle.policy import CREATE_WITHIN
from corral.domain.lifecycle.tables import FIRST_PHASE, TRANSITIONS
from corral.domain.observation.kept_data import DataNotice
from corral.domain.observation.sighting import Endpoint, ProviderInstance, Sighting
from corral.domain.observation.spot import is_notice
from corral.domain.records import replace

_ONCE_CREATED: Final = {Phase.CREATING: Phase.STARTING, Phase.TERMINATED: Phase.DELETING}
"""The phases that an id from the provider ends; an instance that is to be deleted, or failed, stays so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows from a record: the engine records *phase* and *failure* first, then does *action*."""

    phase: Phase
    action: Action | None = None
    because: str
    requeue_after: timedelta | None = None
    """When to reconcile again; None: after the next observation or command."""
    failure: Failure | None = None
    is_in_doubt: bool = False
    """Whether a create call may have happened: none is sent before its machine shows or the doubt is settled."""
    data_notice: DataNotice | None = None
    """The warning to give that the data of the stopped machine will be purged."""


def check_transition(before: Instance, after: Instance) -> None:
    """Raise IllegalTransitionError unless the table has this change of phase; no change is always legal."""
    if before.phase is not after.phase and (before.phase, after.phase) not in TRANSITIONS:
        raise IllegalTransitionError(
            f"{before.id} cannot go from {before.phase} to {after.phase}: no transition of the lifecycle does"
        )


def requested(
    request: CreateRequest,
    placement: Placement,
    *,
    instance_id: InstanceId,
    operation_id: OperationId,
    now: datetime,
    created_by: str | None = None,
    labels: Labels = (),
    lease: Lease | None = None,
) -> Instance:
    """A new instance, which is to be created."""
    wait = timedelta(seconds=request.wait_for_capacity_seconds or 0)
    return Instance(
        id=instance_id,
        request=request,
        goal=Goal.RUNNING,
        phase=Phase.CREATING,
        operation_id=operation_id,
        created_at=now,
        created_by=created_by,
        labels=labels,
        lease=None if lease is None else new_state(lease, now),
        phase_since=now,
        deadline_at=now + wait + CREATE_WITHIN,
        placement=placement,
    )


def first_phase(seen: ProviderInstance) -> Phase:
    """The phase of an instance that is known from the provider alone."""
    phase = FIRST_PHASE[seen.sighting]
    return Phase.FAILED if seen.failure is not None and phase in COMING_UP else phase


def provider_failure(reported: str | None) -> Failure:
    """The failure of an instance for which the provider reports one."""
    return Failure(code="PROVISIONING_FAILED", message=f"the provider reports: {reported}")


def created(instance: Instance, provider_id: str, now: datetime) -> Instance:
    """The instance after the provider returned an id, whatever became of the record meanwhile."""
    made, phase = with_provider_id(instance, provider_id, now), _ONCE_CREATED.get(instance.phase)
    return made if phase is None else _enter(made, phase, now)


def with_provider_id(instance: Instance, provider_id: str, now: datetime) -> Instance:
    """The instance with the id that its create call returned, in the phase that it has."""
    deadline = instance.deadline_at
    if instance.waiting is not None and deadline is not None:
        deadline = max(deadline, now + CREATE_WITHIN)  # the wait is not taken from the time it needs to come up
    sent_at = instance.create.sent_at or instance.created_at
    return replace(
        instance,
        provider_id=ProviderId(provider_id),
        observation=replace(instance.observation, meter=expected(sent_at)),
        create=replace(instance.create, sent_at=None),
        started_at=now,
        deadline_at=deadline,
        waiting=None,
    )


def endpoints_known(
    instance: Instance, endpoints: tuple[Endpoint, ...], access: LoginMethods | None, now: datetime
) -> Instance:
    """The instance after a lookup showed it running with an address for every endpoint: its health is checked next."""
    return _enter(instance, Phase.HEALTH_CHECKING, now, endpoints=endpoints, access=access, health=None, failure=None)


def healthy(instance: Instance, report: HealthReport, now: datetime) -> Instance:
    """The instance after its health checks passed: it is ready, and has no deadline any more."""
    ready_at = instance.ready_at or now
    return _enter(instance, Phase.READY, now, health=report, failure=None, ready_at=ready_at, deadline_at=None)


def gave_up(instance: Instance, failure: Failure, now: datetime, report: HealthReport | None = None) -> Instance:
    """The instance after no offer was available, or after its health checks failed for too long."""
    return _enter(instance, Phase.FAILED, now, failure=failure, health=report or instance.health)


def decided(instance: Instance, decision: Decision, now: datetime) -> Instance:
    """The instance once *decision* is recorded; *instance* itself if that changes nothing."""
    if decision.is_in_doubt and instance.create.doubted_at is None:
        instance = replace(instance, create=replace(instance.create, doubted_at=now, listings_without=0))
    elif instance.create_in_doubt and not decision.is_in_doubt and decision.action is None:
        # Settled: nothing was created as far as listings show, and nothing is tried now.
        given_up = (*instance.given_up, instance.create.number)
        instance = replace(instance, create=replace(instance.create, sent_at=None), given_up=given_up)
    if instance.goal is not Goal.GONE and is_notice(instance.observation.spot, instance.announced_spot):
        instance = replace(instance, announced_spot=instance.observation.spot)
    if decision.data_notice is not None:
        instance = replace(instance, announced_data=decision.data_notice)
    elif instance.announced_data is not None and instance.observation.sighting is Sighting.RUNNING:
        instance = replace(instance, announced_data=None)
    never_left = instance.pending.action is Action.START and not has_happened(instance)
    is_over = has_happened(instance) or decision.phase not in {Phase.STARTING, Phase.RESTARTING}
    if instance.pending.action is not None and is_over:
        done = replace(instance.pending, action=None, attempts=0, refused=None)
        instance = replace(instance, pending=done, started_at=instance.started_at if never_left else now)
    if decision.phase is instance.phase:
        return instance
    late = instance.deadline_at is not None and now >= instance.deadline_at
    healed = instance.phase is Phase.FAILED or late
    return _enter(
        instance,
        decision.phase,
        now,
        failure=decision.failure,
        pending=replace(instance.pending, refused=None),
        # Past its deadline and up all the same: from here on it takes the time it takes.
        deadline_at=None if healed or not is_due(instance, decision.phase) else instance.deadline_at,
        stopped_at=now if decision.phase is Phase.EXITED and not never_left else instance.stopped_at,
    )


def is_due(instance: Instance, phase: Phase) -> bool:
    """Whether the deadline of *instance* counts in *phase*: also while the provider stops what is to come up."""
    return phase in COMING_UP or (phase is Phase.STOPPING and instance.goal is Goal.RUNNING)


def start_requested(instance: Instance, now: datetime, within: timedelta) -> Instance:
    """The instance after a start was requested; a failed one that runs needs no call, and is only inspected again."""
    is_down = instance.observation.sighting in {Sighting.EXITED, None}
    return _enter(
        instance,
        Phase.STARTING,
        now,
        goal=Goal.RUNNING,
        deadline_at=now + within,
        pending=PendingAction(action=Action.START if is_down else None),
        failure=None,
        ready_at=None,
        endpoints=(),
        access=None,
        health=None,
        observation=replace(instance.observation, failure=None),
    )


def restart_requested(instance: Instance, now: datetime, within: timedelta) -> Instance:
    """The instance after a restart was requested."""
    return _enter(
        instance,
        Phase.RESTARTING,
        now,
        goal=Goal.RUNNING,
        deadline_at=now + within,
        pending=PendingAction(action=Action.RESTART),
        failure=None,
        health=None,
    )


def stop_requested(instance: Instance, now: datetime) -> Instance:
    """The instance after a stop was requested."""
    is_starting = instance.pending.action is Action.START and instance.pending.sent_at is not None
    return _enter(
        instance,
        Phase.STOPPING,
        now,
        goal=Goal.STOPPED,
        deadline_at=None,
        pending=PendingAction(),
        failure=None,
        # A start that may be under way makes the last sighting worthless: it must not pass for a stop.
        observation=replace(instance.observation, sighting=None) if is_starting else instance.observation,
    )


def delete_requested(instance: Instance, now: datetime) -> Instance:
    """The instance after its deletion was requested; it keeps the reason for which it failed."""
    return _enter(instance, Phase.DELETING, now, goal=Goal.GONE, deadline_at=None, pending=PendingAction())


def _enter(instance: Instance, phase: Phase, now: datetime, **changes: Any) -> Instance:
    """*instance* in *phase* since *now*, with other *changes*."""
    return replace(instance, phase=phase, phase_since=now, **changes)
