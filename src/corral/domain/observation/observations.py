"""
What one observation of a machine, or its absence in one, changes in the record of its instance. Pure.

An observation is a listing or a lookup; a record that heard something later than the observation began stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from corral.domain.instance import Instance, ProviderId
from corral.domain.lifecycle.release import is_first_without_effect
from corral.domain.lifecycle.tables import Goal, Phase
from corral.domain.observation.matching import Match
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.observation.spot import observed

ACCEPTED_SETTLE: Final = timedelta(seconds=15)
"""How long after the provider accepted the delete of a machine that was never seen its absence means nothing. Shorter,
and a machine that lookups do not show yet is called terminated while it is being removed; longer, and a request that
was deleted right after its creation stays `deleting`."""
CLOCK_SKEW: Final = timedelta(seconds=5)
"""A recorded time further ahead than this was taken before the clock was set back, and does not say what is newer.
Smaller, and processes whose clocks differ overwrite newer observations; larger, and observations are ignored for that
long after the clock was set back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTimes:
    """When an observation was made, and how long a new machine may stay invisible."""

    began: datetime
    now: datetime
    settle: timedelta


def seen_as(instance: Instance, seen: ProviderInstance, times: ObservationTimes) -> Instance:
    """The record after its machine was observed."""
    if is_more_recent(instance, times) or _looks_as_before(instance, seen, times):
        return instance
    spot = observed(instance.spot, seen, times.began)
    # Another word for the same sighting ("creating", then "pulling") changes nothing we would do about it.
    same = (
        instance.sighting is seen.sighting
        and instance.provider_failure == seen.failure
        and instance.missing_since is None
        and instance.unfound_since is None
        and instance.spot == spot
        and not is_first_without_effect(instance, seen.sighting, times.began)
    )
    if same:
        return instance
    return replace(
        instance,
        sighting=seen.sighting,
        word=seen.word,
        sighted_at=times.began,
        booted_at=seen.started_at or instance.booted_at,
        provider_failure=seen.failure,
        spot=spot,
        missing_since=None,
        missing_checks=0,
        missing_checked_at=None,
        unfound_since=None,
        owed=None if _restarted(instance, seen) else instance.owed,
    )


def _looks_as_before(instance: Instance, seen: ProviderInstance, times: ObservationTimes) -> bool:
    """
    Whether a machine that was asked to restart is seen as it was before, which says nothing yet.

    It is given the settle time to be seen doing something else, or to tell of a newer start.
    """
    asked = instance.acted_at
    if instance.phase is not Phase.RESTARTING or instance.sighting is not None or asked is None:
        return False
    if asked > times.now + CLOCK_SKEW:
        return False  # the clock was set back since
    early = times.began - asked < times.settle
    return times.began < asked or (seen.sighting is Sighting.RUNNING and early and not _restarted(instance, seen))


def _restarted(instance: Instance, seen: ProviderInstance) -> bool:
    """Whether it was asked to restart and tells of a start since."""
    if instance.phase is not Phase.RESTARTING or instance.acted_at is None:
        return False
    return None not in (seen.started_at, instance.booted_at) and seen.started_at != instance.booted_at


def with_machine(match: Match, times: ObservationTimes) -> Instance:
    """
    The record with the machine that was found for it.

    A machine that the provider moved has other endpoints, so it is migrating until a later listing says more.
    """
    record, mark, seen = match.record, match.mark, match.seen
    lost = (record.attempt,) if record.create_in_doubt and mark.attempt != record.attempt else ()
    adopted = replace(
        record,
        attempt=max(record.attempt, mark.attempt),
        provider_id=ProviderId(seen.id),
        provider_attempt=mark.attempt,
        given_up=record.given_up + lost,
        create_sent_at=None,
        sighting=None,
        missing_since=None,
        missing_checks=0,
        missing_checked_at=None,
        unfound_since=None,
        unlisted_since=None,
        unlisted_found_at=None,
        started_at=record.started_at if match.moved else times.began,
    )
    if not match.moved:
        return seen_as(adopted, seen, times)
    moving = Sighting.MIGRATING
    return replace(adopted, sighting=moving, word=moving.value, sighted_at=times.began, endpoints=(), ways=None)


def is_more_recent(instance: Instance, times: ObservationTimes) -> bool:
    """
    Whether the provider said something of it since the observation began: reading a listing takes a while.

    A time that lies ahead of the clock was recorded before the clock was set back; it does not count.
    """
    heard = (instance.sighted_at, instance.unfound_since)
    return any(at is not None and times.began < at <= times.now + CLOCK_SKEW for at in heard)


def not_seen(instance: Instance, times: ObservationTimes) -> Instance:
    """The record after a complete listing lacked its machine."""
    if instance.missing_since is not None or instance.sighting is Sighting.ABSENT or is_more_recent(instance, times):
        return instance
    if is_too_new(instance, times.began, times.settle):
        return instance
    return replace(instance, missing_since=times.began)


def is_too_new(instance: Instance, at: datetime, settle: timedelta) -> bool:
    """
    Whether it had no time to show yet.

    Neither the list nor a lookup by its id need know a new one. A machine whose delete the provider accepted was known
    to it by then; a list that lags is given a shorter time.
    """
    if instance.sighting is not None:
        return False
    if instance.goal is Goal.GONE and instance.delete_accepted_at is not None:
        return at - instance.delete_accepted_at < min(ACCEPTED_SETTLE, settle)
    return at - (instance.started_at or instance.phase_since) < settle
