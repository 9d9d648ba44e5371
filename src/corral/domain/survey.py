"""
What one listing of the whole account tells about the instances we remember. Pure.

A listing that is complete is the only thing that can show an absence; any listing can show a presence.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle import Goal, Phase
from corral.domain.marks import Mark, read_mark
from corral.domain.matching import Match, Unmatched, matched
from corral.domain.release import is_first_without_effect
from corral.domain.sighting import ProviderInstance, Sighting
from corral.domain.spot import observed

SAMPLE: Final = 5
"""How many instances that one listing suddenly lacks are looked up before the others are. Fewer, and machines that
really are gone hide for longer that a list is wrong; more, and a list that is empty by mistake costs more calls."""
FIRST_RECHECK: Final = timedelta(seconds=30)
"""How long after a lookup found an instance that the list lacks it is looked up again; doubles each time. Shorter, and
a list that is wrong uses up the rate limit; longer, and an instance that goes meanwhile is noticed later."""
LAST_RECHECK: Final = timedelta(minutes=4)
"""The longest such pause."""
CLOCK_SKEW: Final = timedelta(seconds=5)
"""A recorded time further ahead than this was taken before the clock was set back, and does not say what is newer.
Smaller, and processes whose clocks differ overwrite newer observations; larger, and observations are ignored for that
long after the clock was set back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What follows from a listing."""

    changed: tuple[Instance, ...]
    """Instances as they are to be written down; each is due a pass."""
    counted: tuple[Instance, ...]
    """Instances of which only the count of listings without them changed."""
    matches: tuple[Match, ...]
    """Machines that records are given by this listing; the records are among the changed."""
    unmatched: tuple[Unmatched, ...]
    """Machines that carry our mark and belong to no record."""
    to_confirm: tuple[Match, ...]
    """Machines that records seem to have moved to; whether the old ones are gone is to be looked up now."""
    trusted: bool
    """Whether what the listing lacks is known not to exist: it is complete, and every machine of ours that it lacks
    was looked up by its id and not found."""
    restless: bool
    """Whether the next listing should come soon although every phase is at rest."""


def peeked(
    instance: Instance, seen: ProviderInstance | None, *, began: datetime, now: datetime, settle: timedelta
) -> Instance:
    """
    What a look at *instance* alone, by its id, tells; None: it was not found.

    Not to be found says something only of one that was told to go. Any other must be missing in a listing too.
    """
    times = _Times(began=began, now=now, settle=settle)
    if seen is not None:
        return _seen(instance, seen, times)
    told_to_go = instance.goal is Goal.GONE and instance.acted_at is not None and began >= instance.acted_at
    known = instance.unfound_since is not None or instance.missing_since is not None
    if not told_to_go or known or instance.sighting is Sighting.ABSENT or _knows_better(instance, times):
        return instance
    return instance if _is_too_new(instance, began, settle) else replace(instance, unfound_since=began)


def followed(match: Match, *, began: datetime, now: datetime, settle: timedelta) -> Instance:
    """The record after a lookup that *began* then showed that its machine is gone: it has moved."""
    return _adopted(match, _Times(began=began, now=now, settle=settle))


def unnamed(instance: Instance, *, began: datetime, settle: timedelta) -> Instance | None:
    """*instance* after a lookup, begun then, that did not find its name; None if that proves nothing yet."""
    if not _counts(instance, began, settle):
        return None
    return replace(instance, listings_since_sent=instance.listings_since_sent + 1)


def found_unlisted(instance: Instance, now: datetime) -> Instance:
    """The record after a lookup *now* found a machine that a complete listing lacks; such a listing proves nothing."""
    return replace(instance, unlisted_since=instance.unlisted_since or now, unlisted_found_at=now)


def marked(listed: Iterable[ProviderInstance], installation: str) -> list[tuple[Mark, ProviderInstance]]:
    """Those of *listed* that this installation made."""
    found = ((read_mark(seen.name), seen) for seen in listed)
    return [(mark, seen) for mark, seen in found if mark is not None and mark.installation == installation]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """When an observation was made, and how long a new machine may stay invisible."""

    began: datetime
    now: datetime
    settle: timedelta


def survey(
    remembered: Mapping[InstanceId, Instance],
    listed: Sequence[ProviderInstance],
    *,
    complete: bool,
    began: datetime,
    now: datetime,
    installation: str,
    settle: timedelta,
    outlasted: Container[InstanceId] = (),
) -> Survey:
    """
    Compare what is *remembered* with what is *listed* by a listing that *began* then and is compared *now*.

    *remembered* holds every instance that is watched and every one that a listed mark names. An instance that was never
    seen is given *settle* to show before its absence means anything; a create in doubt is spoken against only if it is
    among the *outlasted*, too: who looks has waited that long by a watch that nobody can set.
    """
    times = _Times(began=began, now=now, settle=settle)
    by_provider = {i.provider_id: i for i in remembered.values() if i.provider_id is not None}
    after = {
        known.id: _listed(_seen(known, seen, times))
        for seen in listed
        if (known := by_provider.get(ProviderId(seen.id))) is not None
    }
    free = [(mark, seen) for mark, seen in marked(listed, installation) if ProviderId(seen.id) not in by_provider]
    unseen = [i for i in remembered.values() if i.id not in after] if complete else []
    lacking = [i for i in unseen if _is_expected(i, times)]
    matches, unmatched, to_confirm = matched({**remembered, **after}, free, {i.id for i in lacking})
    after |= {match.record.id: _adopted(match, times) for match in matches}
    settled = {match.record.id for match in (*matches, *to_confirm)}
    unseen, lacking = [i for i in unseen if i.id not in after], [i for i in lacking if i.id not in after]
    trusted = complete and all(i.missing_checks > 0 for i in lacking)
    counted = [
        replace(i, listings_since_sent=i.listings_since_sent + 1)
        for i in unseen
        if trusted and i.id in outlasted and _counts(i, began, settle)
    ]
    leaving = [i for i in unseen if i.provider_id is not None and _is_leaving(i)]
    suspects = _suspects([i for i in lacking if i.id not in settled], now)
    after |= {i.id: _unseen(i, times) for i in (*leaving, *suspects)}
    standing = {**remembered, **after}.values()
    return Survey(
        changed=tuple(new for new in after.values() if new is not remembered[new.id]),
        counted=tuple(counted),
        matches=tuple(matches),
        unmatched=tuple(unmatched),
        to_confirm=tuple(each for each in to_confirm if _recheck_due(each.record, now)),
        trusted=trusted,
        restless=any(i.unlisted_since is None for i in lacking)
        or any(i.sighting is Sighting.MOVING and i.phase is not Phase.TERMINATED for i in standing),
    )


def _is_expected(instance: Instance, times: _Times) -> bool:
    """Whether a listing that is right would show it, as far as we know."""
    return (
        instance.provider_id is not None
        and instance.sighting is not Sighting.ABSENT
        and not _is_leaving(instance)
        and not _knows_better(instance, times)
        and not _is_too_new(instance, times.began, times.settle)
    )


def _is_leaving(instance: Instance) -> bool:
    """Whether nothing speaks for a mistake if it is not listed any more."""
    return instance.goal is Goal.GONE or instance.sighting is Sighting.REMOVING


def _suspects(lacking: Sequence[Instance], now: datetime) -> Sequence[Instance]:
    """
    Those of *lacking* that are to be looked up by their ids.

    Once a lookup has found one of them the listing is wrong: then only those are looked up again, at growing pauses.
    Before any lookup, a few are: a listing that lacks many is more likely to be wrong than right.
    """
    found = [i for i in lacking if i.unlisted_since is not None]
    if found:
        return [i for i in found if _recheck_due(i, now)]
    return lacking if any(i.missing_checks for i in lacking) else lacking[:SAMPLE]


def _recheck_due(instance: Instance, now: datetime) -> bool:
    first, last = instance.unlisted_since, instance.unlisted_found_at
    if first is None or last is None or last > now + CLOCK_SKEW:
        return True
    return now - last >= min(max(last - first, FIRST_RECHECK), LAST_RECHECK)


def _listed(instance: Instance) -> Instance:
    if instance.unlisted_since is None:
        return instance
    return replace(instance, unlisted_since=None, unlisted_found_at=None)


def _counts(instance: Instance, began: datetime, settle: timedelta) -> bool:
    """
    Whether a listing without it, begun at *began*, speaks against a create call in doubt.

    One begun before the settle time was over proves nothing, however many there are: it may lag behind the create.
    """
    since = instance.doubted_at
    return instance.create_in_doubt and since is not None and began > since and began - since >= settle


def _seen(instance: Instance, seen: ProviderInstance, times: _Times) -> Instance:
    if _knows_better(instance, times) or _looks_as_before(instance, seen, times):
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


def _looks_as_before(instance: Instance, seen: ProviderInstance, times: _Times) -> bool:
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


def _adopted(match: Match, times: _Times) -> Instance:
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
        return _seen(adopted, seen, times)
    moving = Sighting.MIGRATING
    return replace(adopted, sighting=moving, word=moving.value, sighted_at=times.began, endpoints=(), ways=None)


def _knows_better(instance: Instance, times: _Times) -> bool:
    """
    Whether the provider said something of it since the observation began: reading a listing takes a while.

    A time that lies ahead of the clock was recorded before the clock was set back; it does not count.
    """
    heard = (instance.sighted_at, instance.unfound_since)
    return any(at is not None and times.began < at <= times.now + CLOCK_SKEW for at in heard)


def _unseen(instance: Instance, times: _Times) -> Instance:
    if instance.missing_since is not None or instance.sighting is Sighting.ABSENT or _knows_better(instance, times):
        return instance
    if _is_too_new(instance, times.began, times.settle):
        return instance
    return replace(instance, missing_since=times.began)


def _is_too_new(instance: Instance, at: datetime, settle: timedelta) -> bool:
    """
    Whether it had no time to show yet.

    Neither the list nor a look by its id need know a new one; nor does "not found" from a delete prove much then.
    """
    return instance.sighting is None and at - (instance.started_at or instance.phase_since) < settle
