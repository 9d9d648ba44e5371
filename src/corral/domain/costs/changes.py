"""
Which spans of usage begin and end when the record of an instance changes. Pure.

A span begins and ends at instants that are only known to lie between two observations: not before the call that leads
to it was sent or the last observation that showed otherwise began, and not after the observation that showed it was
recorded. Listings that change nothing are not written to the records, so the last observation is known to the database
alone: a `UsageChange` gives what the record knows, and `store/tables/costs/usage.py` completes it.
"""

from __future__ import annotations

from datetime import datetime

from corral.domain.costs.meter import Gauge, MeterState
from corral.domain.costs.provider_times import EFFECT_WITHIN, PROVIDER_CLOCK, plausible, stop_bounds
from corral.domain.costs.usage import (
    Bounds,
    NewUsage,
    UsageCause,
    UsageChange,
    UsageKind,
    UsageTerms,
    follows_listings,
    gauge_of,
    machine_terms,
    terms_of,
)
from corral.domain.instance import Instance
from corral.domain.records import replace


def usage_changes(before: Instance | None, after: Instance, now: datetime) -> list[UsageChange]:
    """
    What replacing *before* by *after*, written at *now*, changes; empty if nothing that is billed changes.

    *before* is None for an adopted machine, the usage of which begins with its record.
    """
    calls = [] if before is None else _calls(before, after, now)
    if after.provider_id is None or (before is not None and _is_alike(before, after)):
        return calls
    left: list[UsageChange] = []
    if before is not None and before.provider_id == after.provider_id:
        found = [_same_machine(kind, before, after, now) for kind in UsageKind]
    elif before is not None and _is_made_by_call(before, after):
        found = [each for kind in UsageKind for each in _made_by_call(kind, before, after, now)]
    else:
        left = [] if before is None or before.provider_id is None else _left_behind(before, now)
        found = [_new_machine(kind, before, after, now) for kind in UsageKind]
    return [*calls, *left, *(each for each in found if each is not None)]


def _is_alike(before: Instance, after: Instance) -> bool:
    """Whether nothing changed that usage follows from; quick, because every write of an instance asks."""
    old, new = before.observation, after.observation
    return (
        (old is new or (old.meter == new.meter and follows_listings(before) is follows_listings(after)))
        and before.provider_id == after.provider_id
        and before.phase is after.phase
        and before.goal is after.goal
        and before.lease is after.lease
        and before.labels == after.labels
        and before.placement == after.placement
    )


def _calls(before: Instance, after: Instance, now: datetime) -> list[UsageChange]:
    """
    The usage that a create call may cause, from when it is about to be sent on; the id of its machine is not known yet.

    It never was if the call certainly made no machine, and ends when a doubt about that does.
    """
    old, new = _call(before), _call(after)
    if old == new:
        return []
    changes: list[UsageChange] = []
    for kind in UsageKind:
        if old is not None and not _is_made_by_call(before, after):
            is_void = before.create.doubted_at is None
            changes.append(UsageChange(provider_id=old[0], kind=kind, ended=Bounds(by=now), is_void=is_void))
        terms = machine_terms(after, kind)
        if new is not None and terms is not None:
            begins = NewUsage(terms=terms, since=new[1], confirmed_at=new[1])
            changes.append(UsageChange(provider_id=new[0], kind=kind, begins=begins))
    return changes


def _call(instance: Instance) -> tuple[str, datetime] | None:
    """What stands for the id of the machine that a create call may have made, and when the call was sent."""
    if instance.provider_id is not None or instance.create.sent_at is None:
        return None
    return f"{instance.id}:{instance.create.number}", instance.create.sent_at


def _is_made_by_call(before: Instance, after: Instance) -> bool:
    """Whether the machine of *after* is the one of the create call that *before* waits for."""
    is_last = after.provider_attempt in {None, before.create.number}
    return after.provider_id is not None and _call(before) is not None and is_last


def _made_by_call(kind: UsageKind, before: Instance, after: Instance, now: datetime) -> list[UsageChange]:
    """The usage of a create call whose machine is known now."""
    call, new = _call(before), gauge_of(after, kind)
    had, has = machine_terms(before, kind), terms_of(after, kind)
    assert call is not None  # noqa: S101  # the caller asked
    machine = str(after.provider_id)
    is_seen = after.observation.sighting is not None
    # What was known of it as an orphan ends here.
    changes = [UsageChange(provider_id=machine, kind=kind, ended=Bounds(by=now))] if is_seen else []
    if had is None or new is None:
        return [each for each in (_new_machine(kind, before, after, now),) if each is not None]
    change = UsageChange(
        provider_id=call[0],
        kind=kind,
        becomes=machine,
        follows=_follows(after, new),
        known_at=call[1],
        confirmed_at=new.at,
    )
    if has is None:
        change = replace(change, follows=False, confirmed_at=None, ended=Bounds(by=now), is_off=True)
    elif new.state is MeterState.BILLED:
        begun = replace(change, started=_start(kind, before, after, now), terms=had)
        change = _with_terms(begun, had, has, new, now)
    else:
        is_known = new.is_listed or new.at == call[1]
        change = replace(change, terms=has, confirmed_at=new.at if is_known else call[1])
    return [*changes, change]


def _same_machine(kind: UsageKind, before: Instance, after: Instance, now: datetime) -> UsageChange | None:
    old, new = gauge_of(before, kind), gauge_of(after, kind)
    if new is None:
        return None
    if old is None:
        return _first_metered(kind, before, after, now)
    had, has = terms_of(before, kind), terms_of(after, kind)
    if had is None and has is None:
        return None
    change = UsageChange(
        provider_id=str(after.provider_id),
        kind=kind,
        follows=_follows(after, new),
        known_at=old.at,
        confirmed_at=new.at,
    )
    if has is None:
        return replace(change, follows=False, confirmed_at=None, ended=_end(kind, before, after, now), is_off=True)
    if had is None:
        return replace(change, known_at=None, begins=_begun(kind, before, after, has, now))
    if old.state is MeterState.EXPECTED and new.state is MeterState.BILLED:
        return _with_terms(replace(change, started=_start(kind, before, after, now)), had, has, new, now)
    if old.state is not new.state or _was_stopped(kind, before, after):
        ended, begins = _end(kind, before, after, now), _begun(kind, before, after, has, now)
        return replace(change, confirmed_at=None, ended=ended, is_off=True, begins=begins)
    if had == has and change.follows is _follows(before, old) and (change.follows or old.at == new.at):
        return None
    if new.state is MeterState.EXPECTED:
        return replace(change, terms=has)
    return _with_terms(change, had, has, new, now)


def _with_terms(change: UsageChange, had: UsageTerms, has: UsageTerms, new: Gauge, now: datetime) -> UsageChange:
    """*change* of a billed machine; if its terms changed, too, one span ends and the next begins at *now*."""
    return change if had == has else replace(change, ended=Bounds(by=now), begins=_continued(has, new, now))


def _new_machine(kind: UsageKind, before: Instance | None, after: Instance, now: datetime) -> UsageChange | None:
    """The usage of a machine that a record has just got: by its create, by its name, or because it was adopted."""
    new, has = gauge_of(after, kind), terms_of(after, kind)
    is_seen = after.observation.sighting is not None
    if new is None or (has is None and not is_seen):
        return None
    begins: NewUsage | None = None
    if has is not None:
        since = now if before is None else min(_sent_at(before, after), now)
        is_billed = new.state is MeterState.BILLED
        begins = NewUsage(
            terms=has,
            since=since,
            started=_start(kind, before, after, now) if is_billed else None,
            confirmed_at=new.at if is_billed or new.is_listed else since,
            replaces=None if before is None else before.provider_id,
            unlisted_from=None if before is None else _first_unlisted(before, now),
        )
    return UsageChange(
        provider_id=str(after.provider_id),
        kind=kind,
        follows=_follows(after, new),
        # What was known of it as an orphan ends here.
        ended=Bounds(by=now) if is_seen else None,
        begins=begins,
    )


def _first_unlisted(before: Instance, now: datetime) -> datetime:
    """When a listing first lacked the machine of *before*; *now* if none was recorded."""
    seen = before.observation
    return min((at for at in (seen.unlisted_since, seen.found_unlisted_since) if at is not None), default=now)


def _first_metered(kind: UsageKind, before: Instance, after: Instance, now: datetime) -> UsageChange | None:
    """The first observation since an earlier release, which writes no usage, wrote the record."""
    new, has = gauge_of(after, kind), terms_of(after, kind)
    if new is None:
        return None
    change = UsageChange(provider_id=str(after.provider_id), kind=kind, follows=_follows(after, new))
    if has is None:
        return replace(change, ended=_end(kind, before, after, now), is_off=True)
    started = _start(kind, before, after, now) if new.state is MeterState.BILLED else None
    # Both times of an adopted machine are the provider's.
    since = min(before.phase_since if before.request.is_adopted else before.started_at or before.created_at, now)
    begins = NewUsage(terms=has, since=since, started=started, confirmed_at=new.at, unless_open=True)
    return replace(change, started=started, confirmed_at=None if started is None else new.at, begins=begins)


def _left_behind(before: Instance, now: datetime) -> list[UsageChange]:
    """The usage of the machine that *before* had, which is going or gone: listings show when it is."""
    changes: list[UsageChange] = []
    for kind in UsageKind:
        gauge, had = gauge_of(before, kind), terms_of(before, kind)
        if gauge is not None and had is not None:
            change = UsageChange(provider_id=str(before.provider_id), kind=kind, known_at=gauge.at)
            overlap = _continued(replace(had, cause=UsageCause.OVERLAP), gauge, now)
            changes.append(replace(change, ended=Bounds(by=now), begins=overlap))
    return changes


def _begun(kind: UsageKind, before: Instance, after: Instance, has: UsageTerms, now: datetime) -> NewUsage:
    """A span that begins after the machine was last known to be billed for less, or stopped since."""
    old, new = gauge_of(before, kind), gauge_of(after, kind)
    assert old is not None  # noqa: S101  # both have a machine and a meter
    assert new is not None  # noqa: S101
    return NewUsage(
        terms=has,
        since=min(old.at, now),
        after_listing=_follows(before, old),
        started=_start(kind, before, after, now) if new.state is MeterState.BILLED else None,
        confirmed_at=max(new.at, old.at),
    )


def _continued(has: UsageTerms, gauge: Gauge, now: datetime) -> NewUsage:
    """The span that follows at *now* when the terms of a billed machine change."""
    return NewUsage(terms=has, since=now, started=Bounds(by=now), confirmed_at=gauge.at)


def _start(kind: UsageKind, before: Instance | None, after: Instance, now: datetime) -> Bounds:
    """Billed from some time before the provider's time of the last start on, if that was after it was unbilled."""
    old = None if before is None else gauge_of(before, kind)
    booted_at = plausible(after.observation.booted_at, now)
    if booted_at is None or (old is not None and booted_at < old.at):
        return Bounds(by=now)
    return Bounds(by=now, ceiling=booted_at + EFFECT_WITHIN)


def _end(kind: UsageKind, before: Instance, after: Instance, now: datetime) -> Bounds:
    """Billed until about the provider's time of the last stop, if that is a new one."""
    return stop_bounds(_new_stop(kind, before, after), now)


def _new_stop(kind: UsageKind, before: Instance, after: Instance) -> datetime | None:
    """The provider's time of a stop that was not known before; a stop does not end the usage of a disk."""
    old, new = before.observation.meter, after.observation.meter
    if kind is UsageKind.DISK or new is None or (old is not None and old.stopped_at == new.stopped_at):
        return None
    return new.stopped_at


def _was_stopped(kind: UsageKind, before: Instance, after: Instance) -> bool:
    """Whether a machine that was billed before and is now was stopped meanwhile."""
    old, stopped_at = gauge_of(before, kind), _new_stop(kind, before, after)
    if old is None or old.state is not MeterState.BILLED or stopped_at is None:
        return False
    return stopped_at > old.at - PROVIDER_CLOCK


def _sent_at(before: Instance, after: Instance) -> datetime:
    """When the create call of a machine was sent at the earliest, or its instance was last seen elsewhere."""
    if before.observation.meter is not None:
        return before.observation.meter.gpu.at
    is_last = after.provider_attempt in {None, before.create.number}
    return (before.create.sent_at if is_last else None) or before.created_at


def _follows(instance: Instance, gauge: Gauge) -> bool:
    return gauge.is_listed and follows_listings(instance)
