"""
What follows from one listing of the account for the records of instances. Pure.

Any listing shows that a machine exists; only a complete one can show that it does not.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.domain.costs.meter import agrees
from corral.domain.costs.usage import follows_listings
from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle.phases import Goal, Phase
from corral.domain.observation.matching import Match, Unmatched, matched
from corral.domain.observation.observations import (
    CLOCK_SKEW,
    ObservationTimes,
    is_expected,
    is_more_recent,
    with_machine,
    with_sighting,
    without_sighting,
)
from corral.domain.observation.provider_names import ProviderName, parse_provider_name
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.records import replace

SAMPLE: Final = 5
"""How many of the instances that a listing suddenly lacks are looked up first. Fewer, and a wrong list is recognised
later if some of them are gone; more, and a list that is empty by mistake costs more calls."""
FIRST_RECHECK: Final = timedelta(seconds=30)
"""How long after a lookup found an instance that the list lacks it is looked up again; doubles each time. Shorter, and
a list that is wrong uses up the rate limit; longer, and an instance that goes meanwhile is noticed later."""
LAST_RECHECK: Final = timedelta(minutes=4)
"""The longest such pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What follows from a listing."""

    changed: tuple[Instance, ...]
    """Instances to write; each is reconciled if something follows."""
    counted: tuple[Instance, ...]
    """Instances to write in which only the count of listings without them changed."""
    matches: tuple[Match, ...]
    """Machines that records are given by this listing; the records are among the changed."""
    unmatched: tuple[Unmatched, ...]
    """Machines made by this installation that belong to no record."""
    to_confirm: tuple[Match, ...]
    """Machines that records seem to have moved to; whether the old ones are gone is to be looked up now."""
    trusted: bool
    """Whether what the listing lacks is known not to exist: it is complete, and every machine of ours that it lacks
    was looked up by its id and not found."""
    is_unsettled: bool
    """Whether the next listing should come soon although every phase is at rest."""
    confirms_usage: bool
    """Whether it shows every machine that should be listed, and each as its record says once *changed* is written."""
    confirmed: tuple[str, ...]
    """If it does not: the machines that it shows as their records say."""


def after_lookup(
    instance: Instance, seen: ProviderInstance | None, times: ObservationTimes, *, unseen: bool = False
) -> Instance:
    """
    The record after a lookup by its id; *seen* is None if that did not find it.

    A failed lookup counts as evidence only after a delete was sent. Otherwise a listing must lack the machine too, or
    no page of the list may have shown it for a while (*unseen*); then further lookups must confirm it.
    """
    if seen is not None:
        return with_sighting(instance, seen, times)
    if unseen and instance.provider_id is not None and not _is_leaving(instance):
        return without_sighting(instance, times)
    last, sent_at = instance.observation, instance.pending.sent_at
    is_delete_sent = instance.goal is Goal.GONE and sent_at is not None and times.began >= sent_at
    known = last.lookup_failed_since is not None or last.unlisted_since is not None
    if not is_delete_sent or known or not is_expected(instance, times):
        return instance
    return replace(instance, observation=replace(last, lookup_failed_since=times.began))


def name_not_found(instance: Instance, times: ObservationTimes) -> Instance | None:
    """*instance* after a lookup that did not find its name; None if that proves nothing yet."""
    return _counted(instance) if _counts(instance, times) else None


def found_unlisted(instance: Instance, now: datetime) -> Instance:
    """The record after a lookup *now* found a machine that a complete listing lacks; such a listing proves nothing."""
    last = instance.observation
    found = replace(last, found_unlisted_since=last.found_unlisted_since or now, found_unlisted_at=now)
    return replace(instance, observation=found)


def made_by(listed: Iterable[ProviderInstance], installation: str) -> list[tuple[ProviderName, ProviderInstance]]:
    """The machines of *listed* that this installation made, with their parsed names."""
    found = ((parse_provider_name(seen.name), seen) for seen in listed)
    return [(origin, seen) for origin, seen in found if origin is not None and origin.installation == installation]


def compare(
    records: Mapping[InstanceId, Instance],
    listed: Sequence[ProviderInstance],
    times: ObservationTimes,
    *,
    complete: bool,
    installation: str,
    settled: Container[InstanceId] = (),
) -> Comparison:
    """
    Compare *records* with what a listing showed.

    *records* holds every watched instance and every one that the name of a listed machine gives. The absence of an
    instance that was never seen counts only after the settle time. A listing counts against a create in doubt only if
    the create is among the *settled*: the observer has waited that long by its monotonic clock.
    """
    by_provider = {i.provider_id: i for i in records.values() if i.provider_id is not None}
    after = {
        known.id: _listed(with_sighting(known, seen, times))
        for seen in listed
        if (known := by_provider.get(ProviderId(seen.id))) is not None
    }
    free = [(origin, seen) for origin, seen in made_by(listed, installation) if ProviderId(seen.id) not in by_provider]
    unseen = [i for i in records.values() if i.id not in after] if complete else []
    lacking = [i for i in unseen if i.provider_id is not None and not _is_leaving(i) and is_expected(i, times)]
    matches, unmatched, to_confirm = matched({**records, **after}, free, {i.id for i in lacking})
    after |= {match.record.id: with_machine(match, times) for match in matches}
    matched_ids = {match.record.id for match in (*matches, *to_confirm)}
    unseen, lacking = [i for i in unseen if i.id not in after], [i for i in lacking if i.id not in after]
    trusted = complete and all(i.observation.absence_checks > 0 for i in lacking)
    counted = [_counted(i) for i in unseen if trusted and i.id in settled and _counts(i, times)]
    leaving = [i for i in unseen if i.provider_id is not None and _is_leaving(i)]
    suspects = _suspects([i for i in lacking if i.id not in matched_ids], times.now)
    after |= {i.id: without_sighting(i, times) for i in (*leaving, *suspects)}
    everything = {**records, **after}.values()
    shown = {seen.id: seen for seen in listed}
    confirms_usage = complete and all(_is_shown(i, after, shown, times) for i in records.values())
    unchanged = (i for i in records.values() if after.get(i.id) is i and follows_listings(i))
    confirmed = [] if confirms_usage else [i.provider_id or "" for i in unchanged if _is_shown(i, after, shown, times)]
    return Comparison(
        changed=tuple(new for new in after.values() if new is not records[new.id]),
        counted=tuple(counted),
        matches=tuple(matches),
        unmatched=tuple(unmatched),
        to_confirm=tuple(each for each in to_confirm if _recheck_due(each.record, times.now)),
        trusted=trusted,
        is_unsettled=any(i.observation.found_unlisted_since is None for i in lacking)
        or any(i.observation.sighting is Sighting.MOVING and i.phase is not Phase.TERMINATED for i in everything),
        confirms_usage=confirms_usage,
        confirmed=tuple(confirmed),
    )


def _is_shown(
    instance: Instance,
    after: Mapping[InstanceId, Instance],
    shown: Mapping[str, ProviderInstance],
    times: ObservationTimes,
) -> bool:
    """Whether the listing shows its machine as its record says, or changes the record; true without a machine."""
    if not follows_listings(instance):
        return True
    known, seen = after.get(instance.id), shown.get(instance.provider_id or "")
    if known is not None and known is not instance:
        return True
    is_ignored = instance.phase is Phase.RESTARTING or is_more_recent(instance, times)
    return seen is not None and (not is_ignored or agrees(instance.observation.meter, seen))


def _counted(instance: Instance) -> Instance:
    return replace(instance, create=replace(instance.create, listings_without=instance.create.listings_without + 1))


def _is_leaving(instance: Instance) -> bool:
    """Whether it is expected to disappear from the list."""
    return instance.goal is Goal.GONE or instance.observation.sighting is Sighting.REMOVING


def _suspects(lacking: Sequence[Instance], now: datetime) -> Sequence[Instance]:
    """
    Those of *lacking* that are to be looked up by their ids.

    Once a lookup has found one of them the listing is wrong: then only those are looked up again, at growing pauses.
    Before any lookup, a few are: a listing that lacks many is more likely to be wrong than right.
    """
    found = [i for i in lacking if i.observation.found_unlisted_since is not None]
    if found:
        return [i for i in found if _recheck_due(i, now)]
    return lacking if any(i.observation.absence_checks for i in lacking) else lacking[:SAMPLE]


def _recheck_due(instance: Instance, now: datetime) -> bool:
    first, last = instance.observation.found_unlisted_since, instance.observation.found_unlisted_at
    if first is None or last is None or last > now + CLOCK_SKEW:
        return True
    return now - last >= min(max(last - first, FIRST_RECHECK), LAST_RECHECK)


def _listed(instance: Instance) -> Instance:
    if instance.observation.found_unlisted_since is None:
        return instance
    listed = replace(instance.observation, found_unlisted_since=None, found_unlisted_at=None)
    return replace(instance, observation=listed)


def _counts(instance: Instance, times: ObservationTimes) -> bool:
    """
    Whether an observation without it counts against a create call in doubt.

    A listing begun before the settle time was over may lag behind the create and does not count.
    """
    since = instance.create.doubted_at
    return (
        instance.create_in_doubt and since is not None and times.began > since and times.began - since >= times.settle
    )
