"""
What one observation of a machine, or its absence in one, changes in the record of its instance. Pure.

An observation is a listing or a lookup. It does not change a record that a later observation was written to.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.costs.meter import agrees, expected, read
from corral.domain.instance import Instance, Observation, ProviderId
from corral.domain.lifecycle.pending_action import is_first_without_effect
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.kept_data import observed as observed_date
from corral.domain.observation.matching import Match
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.observation.spot import observed as observed_spot
from corral.domain.records import replace

ACCEPTED_SETTLE: Final = timedelta(seconds=15)
"""How long after the provider accepted the delete of a machine that was never seen its absence means nothing. Shorter,
and a machine that lookups do not show yet is called terminated while it is being removed; longer, and a request that
was deleted right after its creation stays `deleting`."""
CLOCK_SKEW: Final = timedelta(seconds=5)
"""A recorded time further ahead than this was taken before the clock was set back, and does not say what is newer.
Smaller, and processes with different clocks overwrite newer observations; larger, and observations are ignored for
that long after the clock was set back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTimes:
    """When an observation was made, and how long a new machine may stay invisible."""

    began: datetime
    now: datetime
    settle: timedelta


def with_sighting(instance: Instance, seen: ProviderInstance, times: ObservationTimes) -> Instance:
    """The record after its machine was observed."""
    if is_more_recent(instance, times) or _shows_no_restart(instance, seen, times):
        return instance
    last = instance.observation
    # Another status text for the same sighting ("toCreate", then "creating") changes nothing that follows from it.
    same = (
        last.sighting is seen.sighting
        and last.failure == seen.failure
        and last.unlisted_since is None
        and last.lookup_failed_since is None
        and last.spot == observed_spot(last.spot, seen, times.began)
        and last.data_kept_until == _data_kept_until(last, seen)
        and agrees(last.meter, seen)
        and not is_first_without_effect(instance, seen.sighting, times.began)
    )
    if same:
        return instance
    return replace(
        instance,
        observation=observed(last, seen, times.began),
        pending=replace(instance.pending, action=None) if _restarted(instance, seen) else instance.pending,
    )


def observed(last: Observation, seen: ProviderInstance, at: datetime) -> Observation:
    """The observation after *seen* was observed from *at* on; earlier signs of absence no longer count."""
    return Observation(
        sighting=seen.sighting,
        provider_status=seen.provider_status,
        sighted_at=at,
        booted_at=seen.started_at or last.booted_at,
        failure=seen.failure,
        spot=observed_spot(last.spot, seen, at),
        data_kept_until=_data_kept_until(last, seen),
        found_unlisted_since=last.found_unlisted_since,
        found_unlisted_at=last.found_unlisted_at,
        meter=read(last.meter, seen, at),
    )


def _data_kept_until(last: Observation, seen: ProviderInstance) -> datetime | None:
    return observed_date(last.data_kept_until, seen, was_stopped=last.sighting is Sighting.EXITED)


def _shows_no_restart(instance: Instance, seen: ProviderInstance, times: ObservationTimes) -> bool:
    """
    Whether a restart was sent and the machine is still seen running as before, which does not count yet.

    Within the settle time it must be seen in another state, or with a newer start time.
    """
    asked = instance.pending.sent_at
    if instance.phase is not Phase.RESTARTING or instance.observation.sighting is not None or asked is None:
        return False
    if asked > times.now + CLOCK_SKEW:
        return False  # the clock was set back since
    early = times.began - asked < times.settle
    return times.began < asked or (seen.sighting is Sighting.RUNNING and early and not _restarted(instance, seen))


def _restarted(instance: Instance, seen: ProviderInstance) -> bool:
    """Whether a restart was sent and the machine has a newer start time since."""
    if instance.phase is not Phase.RESTARTING or instance.pending.sent_at is None:
        return False
    before, after = instance.observation.booted_at, seen.started_at
    return None not in (before, after) and before != after


def with_machine(match: Match, times: ObservationTimes) -> Instance:
    """
    The record with the machine that was found for it.

    A machine that the provider moved has other endpoints, so it is migrating until a later listing says more.
    """
    record, origin, seen = match.record, match.origin, match.seen
    lost = (record.create.number,) if record.create_in_doubt and origin.attempt != record.create.number else ()
    adopted = replace(
        record,
        create=replace(record.create, number=max(record.create.number, origin.attempt), sent_at=None),
        provider_id=ProviderId(seen.id),
        provider_attempt=origin.attempt,
        given_up=record.given_up + lost,
    )
    # What is seen of it first may not show whether it is billed: since its create it may have been.
    is_last = origin.attempt == record.create.number
    known = expected((record.create.sent_at if is_last else None) or record.created_at)
    if not match.moved:
        last = replace(record.observation, meter=known)
        return replace(adopted, started_at=times.began, observation=observed(last, seen, times.began))
    if record.observation.meter is not None:
        known = expected(record.observation.meter.gpu.at)
    moved = Observation(
        sighting=Sighting.MIGRATING,
        provider_status=Sighting.MIGRATING.value,
        sighted_at=times.began,
        booted_at=record.observation.booted_at,
        failure=record.observation.failure,
        spot=record.observation.spot,
        meter=read(known, seen, times.began),
    )
    return replace(adopted, observation=moved, endpoints=(), access=None)


def is_more_recent(instance: Instance, times: ObservationTimes) -> bool:
    """
    Whether a newer observation was recorded since this one began: reading a listing takes a while.

    A time ahead of the clock was recorded before the clock was set back; it does not count.
    """
    recorded = (instance.observation.sighted_at, instance.observation.lookup_failed_since)
    return any(at is not None and times.began < at <= times.now + CLOCK_SKEW for at in recorded)


def without_sighting(instance: Instance, times: ObservationTimes) -> Instance:
    """The record after a complete listing lacked its machine."""
    if instance.observation.unlisted_since is not None or not is_expected(instance, times):
        return instance
    return replace(instance, observation=replace(instance.observation, unlisted_since=times.began))


def is_expected(instance: Instance, times: ObservationTimes) -> bool:
    """
    Whether an observation would show the machine if it exists.

    Not if it is known to be gone, if a newer observation was recorded, or if the machine is so new that the list and a
    lookup by its id need not show it yet. If the provider accepted a delete it knew the machine by then; only a shorter
    lag is allowed for.
    """
    if is_more_recent(instance, times):
        return False
    if instance.observation.sighting is not None:
        return instance.observation.sighting is not Sighting.ABSENT
    if instance.goal is Goal.GONE and instance.delete_accepted_at is not None:
        return times.began - instance.delete_accepted_at >= min(ACCEPTED_SETTLE, times.settle)
    return times.began - (instance.started_at or instance.phase_since) >= times.settle
