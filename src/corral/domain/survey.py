"""
What one listing of the whole account tells about the instances we remember. Pure.

A listing that is complete is the only thing that can show an absence; any listing can show a presence.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle import Goal, Phase
from corral.domain.marks import Mark, read_mark
from corral.domain.sighting import ProviderInstance, Sighting


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What follows from a listing."""

    changed: tuple[Instance, ...]
    """Instances as they are to be written down; each is due a pass."""
    counted: tuple[Instance, ...]
    """Instances of which only the count of listings without them changed."""
    duplicates: tuple[tuple[Mark, ProviderInstance], ...]
    """Provider instances that an earlier or lost attempt of ours left behind."""
    orphans: tuple[tuple[Mark, ProviderInstance], ...]
    """Provider instances that carry our mark, of which we have no record at all."""


def peeked(instance: Instance, seen: ProviderInstance | None, *, began: datetime, settle: timedelta) -> Instance:
    """
    What a look at *instance* alone, by its id, tells; None: it was not found.

    Not to be found says something only of one that was told to go. Any other must be missing in a listing too.
    """
    if seen is not None:
        return _seen(instance, seen, began, settle)
    told_to_go = instance.goal is Goal.GONE and instance.acted_at is not None and began >= instance.acted_at
    known = instance.unfound_since is not None or instance.missing_since is not None
    if not told_to_go or known or instance.sighting is Sighting.ABSENT or _knows_better(instance, began):
        return instance
    return instance if _is_too_new(instance, began, settle) else replace(instance, unfound_since=began)


def marked(listed: Iterable[ProviderInstance], installation: str) -> list[tuple[Mark, ProviderInstance]]:
    """Those of *listed* that this installation made."""
    found = ((read_mark(seen.name), seen) for seen in listed)
    return [(mark, seen) for mark, seen in found if mark is not None and mark.installation == installation]


def survey(
    remembered: Mapping[InstanceId, Instance],
    listed: Sequence[ProviderInstance],
    *,
    complete: bool,
    began: datetime,
    installation: str,
    settle: timedelta,
    outlasted: Container[InstanceId] = (),
) -> Survey:
    """
    Compare what is *remembered* with what is *listed*.

    *remembered* holds every instance that is watched and every one that a listed mark names. An instance that was never
    seen is given *settle* to show before its absence means anything; a create in doubt is spoken against only if it is
    among the *outlasted*, too: who looks has waited that long by a watch that nobody can set.
    """
    by_provider = {i.provider_id: i for i in remembered.values() if i.provider_id is not None}
    after = {
        known.id: _seen(known, seen, began, settle)
        for seen in listed
        if (known := by_provider.get(ProviderId(seen.id))) is not None
    }
    duplicates: list[tuple[Mark, ProviderInstance]] = []
    orphans: list[tuple[Mark, ProviderInstance]] = []
    for mark, seen in marked(listed, installation):
        claimed = after.get(mark.instance_id) or remembered.get(mark.instance_id)
        if ProviderId(seen.id) in by_provider:
            continue
        if claimed is None:
            if seen.sighting not in {Sighting.REMOVING, Sighting.ABSENT}:
                orphans.append((mark, seen))
        elif claimed.provider_id is None and mark.attempt <= claimed.attempt:
            after[claimed.id] = _adopted(claimed, seen, began, settle)
        elif seen.sighting not in {Sighting.REMOVING, Sighting.ABSENT}:
            duplicates.append((mark, seen))
    unseen = [i for i in remembered.values() if i.id not in after] if complete else []
    counted = [
        replace(i, listings_since_sent=i.listings_since_sent + 1)
        for i in unseen
        if i.id in outlasted and _counts(i, began, settle)
    ]
    after |= {i.id: _unseen(i, began, settle) for i in unseen if i.provider_id is not None}
    return Survey(
        changed=tuple(new for new in after.values() if new is not remembered[new.id]),
        counted=tuple(counted),
        duplicates=tuple(duplicates),
        orphans=tuple(orphans),
    )


def _counts(instance: Instance, began: datetime, settle: timedelta) -> bool:
    """
    Whether a listing without it, begun at *began*, speaks against a create call in doubt.

    One begun before the settle time was over proves nothing, however many there are: it may lag behind the create.
    """
    since = instance.doubted_at
    return instance.create_in_doubt and since is not None and began > since and began - since >= settle


def _seen(instance: Instance, seen: ProviderInstance, at: datetime, settle: timedelta) -> Instance:
    if _knows_better(instance, at) or _looks_as_before(instance, seen, at, settle):
        return instance
    # Another word for the same sighting ("creating", then "pulling") changes nothing we would do about it.
    same = (
        instance.sighting is seen.sighting
        and instance.provider_failure == seen.failure
        and instance.missing_since is None
        and instance.unfound_since is None
    )
    if same:
        return instance
    return replace(
        instance,
        sighting=seen.sighting,
        word=seen.word,
        sighted_at=at,
        booted_at=seen.started_at or instance.booted_at,
        provider_failure=seen.failure,
        missing_since=None,
        missing_checks=0,
        missing_checked_at=None,
        unfound_since=None,
        owed=None if _restarted(instance, seen) else instance.owed,
    )


def _looks_as_before(instance: Instance, seen: ProviderInstance, at: datetime, settle: timedelta) -> bool:
    """
    Whether a machine that was asked to restart is seen as it was before, which says nothing yet.

    It is given *settle* to be seen doing something else, or to tell of a newer start.
    """
    asked = instance.acted_at
    if instance.phase is not Phase.RESTARTING or instance.sighting is not None or asked is None:
        return False
    return at < asked or (seen.sighting is Sighting.RUNNING and at - asked < settle and not _restarted(instance, seen))


def _restarted(instance: Instance, seen: ProviderInstance) -> bool:
    """Whether it was asked to restart and tells of a start since."""
    if instance.phase is not Phase.RESTARTING or instance.acted_at is None:
        return False
    return None not in (seen.started_at, instance.booted_at) and seen.started_at != instance.booted_at


def _adopted(instance: Instance, seen: ProviderInstance, at: datetime, settle: timedelta) -> Instance:
    """A create that was in doubt, or long given up, did happen: it is ours."""
    adopted = replace(instance, provider_id=ProviderId(seen.id), create_sent_at=None, started_at=at)
    return _seen(adopted, seen, at, settle)


def _knows_better(instance: Instance, at: datetime) -> bool:
    """Whether the provider said something of it since *at*: reading a listing takes a while, and others look too."""
    return any(heard is not None and heard > at for heard in (instance.sighted_at, instance.unfound_since))


def _unseen(instance: Instance, at: datetime, settle: timedelta) -> Instance:
    if instance.missing_since is not None or instance.sighting is Sighting.ABSENT or _knows_better(instance, at):
        return instance
    return instance if _is_too_new(instance, at, settle) else replace(instance, missing_since=at)


def _is_too_new(instance: Instance, at: datetime, settle: timedelta) -> bool:
    """
    Whether it had no time to show yet.

    Neither the list nor a look by its id need know a new one; nor does "not found" from a delete prove much then.
    """
    return instance.sighting is None and at - (instance.started_at or instance.phase_since) < settle
