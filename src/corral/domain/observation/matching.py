"""
Which record a machine made by this installation belongs to, if no record has its provider id. Pure.

The name of a machine gives the instance and the create attempt that it was made for. A record may lack the machine for
several reasons: the answer to a create call was lost, the database was restored or copied, or the provider moved the
machine and gave it another id. Nothing here leads to the deletion of a machine that runs: it is adopted or reported.

    the record                               the machine                         result
    there is none                            any                                 reported: no_record
    has no machine                           made by an attempt it recorded      adopted: a lost create
    has no machine, instance is wanted       made by a later attempt             adopted: the record is the older one
    its machine is gone or going, wanted     made by the attempt that made that  adopted: the provider moved it
    gave the attempt up, has another         made by that attempt                reported: lost_create
    otherwise                                                                    reported: second_machine
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle.phases import Goal
from corral.domain.observation.provider_names import ProviderName
from corral.domain.observation.sighting import GOING, ProviderInstance, Sighting


class UnmatchedKind(StrEnum):
    """Why a machine that this installation made belongs to no record."""

    NO_RECORD = "no_record"
    """No record has the instance that its name gives."""
    LOST_CREATE = "lost_create"
    """A create call of ours made it after that call was given up; its instance has another machine."""
    SECOND_MACHINE = "second_machine"
    """Its instance has another machine, or was deleted, and no call that this database recorded explains this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """A machine that this installation made and that belongs to no record."""

    origin: ProviderName
    seen: ProviderInstance
    kind: UnmatchedKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A machine for a record that did not have it."""

    record: Instance
    origin: ProviderName
    seen: ProviderInstance
    moved: bool
    """Whether it replaces a machine that the record had."""


def matched(
    records: Mapping[InstanceId, Instance],
    machines: Iterable[tuple[ProviderName, ProviderInstance]],
    unlisted: Container[InstanceId] = (),
) -> tuple[list[Match], list[Unmatched], list[Match]]:
    """
    Assign *machines*, which no record has, to *records*, each record getting one at most.

    Returns the matches, the machines that belong to no record, and moves to confirm: of *unlisted* records, whose
    machine the listing lacks, the machine that it would have moved to. A lookup has to show that the old one is gone.
    """
    by_instance: dict[InstanceId, list[tuple[ProviderName, ProviderInstance]]] = {}
    for origin, seen in machines:
        by_instance.setdefault(origin.instance_id, []).append((origin, seen))
    matches: list[Match] = []
    unmatched: list[Unmatched] = []
    to_confirm: list[Match] = []
    for instance_id, candidates in by_instance.items():
        record = records.get(instance_id)
        chosen = None if record is None else _chosen(record, candidates, is_unlisted=instance_id in unlisted)
        if record is not None and chosen is not None:
            moved = record.provider_id is not None
            match = Match(record=record, origin=chosen[0], seen=chosen[1], moved=moved)
            (matches if not moved or is_gone(record) else to_confirm).append(match)
        unmatched += [
            Unmatched(origin=origin, seen=seen, kind=_kind(record, origin))
            for origin, seen in candidates
            if (chosen is None or seen is not chosen[1]) and seen.sighting not in GOING
        ]
    return matches, unmatched, to_confirm


def preference(candidate: tuple[ProviderName, ProviderInstance]) -> tuple[bool, bool, int, str]:
    """The sort key of machines of one instance: running ones last, before them those that come up; then by attempt."""
    origin, seen = candidate
    is_down = seen.sighting in GOING | {Sighting.EXITED, Sighting.STOPPING}
    return seen.sighting is Sighting.RUNNING, not is_down, origin.attempt, seen.id


def is_gone(record: Instance) -> bool:
    """Whether the record's machine is gone or being removed; one listing without it is not enough."""
    confirmed = record.observation.unlisted_since is not None and record.observation.absence_checks > 0
    return confirmed or record.observation.sighting in GOING


def attempt_of(record: Instance) -> int:
    """The attempt that made the machine of *record*."""
    return record.create.number if record.provider_attempt is None else record.provider_attempt


def _chosen(
    record: Instance, candidates: Iterable[tuple[ProviderName, ProviderInstance]], *, is_unlisted: bool
) -> tuple[ProviderName, ProviderInstance] | None:
    may_move = is_unlisted or is_gone(record)
    return max(
        (each for each in candidates if _may_have(record, *each, may_move=may_move)), key=preference, default=None
    )


def _may_have(record: Instance, origin: ProviderName, seen: ProviderInstance, *, may_move: bool) -> bool:
    if record.provider_id == ProviderId(seen.id):
        return False
    wanted = record.goal is not Goal.GONE and seen.sighting not in GOING
    if record.provider_id is None:
        return origin.attempt <= record.create.number or wanted
    return wanted and may_move and origin.attempt == attempt_of(record)


def _kind(record: Instance | None, origin: ProviderName) -> UnmatchedKind:
    if record is None:
        return UnmatchedKind.NO_RECORD
    return UnmatchedKind.LOST_CREATE if origin.attempt in record.given_up else UnmatchedKind.SECOND_MACHINE
