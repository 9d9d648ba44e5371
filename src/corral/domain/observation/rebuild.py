"""
Records from the provider's list alone, after the database was lost.

Every machine that Corral made has the id of its instance in its name. The owner of a machine is never guessed, and
nothing is deleted: a surplus machine gets a record of its own, and a person decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from corral.domain.errors import GoalRefusedError
from corral.domain.instance import Instance, InstanceId, ProviderId
from corral.domain.lifecycle.phases import Phase
from corral.domain.observation.compare import made_by
from corral.domain.observation.matching import preference
from corral.domain.observation.provider_names import ProviderName, parse_provider_name
from corral.domain.observation.sighting import GOING, ProviderInstance


class RebuildOutcome(StrEnum):
    """What is done with a machine that this installation made."""

    REBUILT = "rebuilt"
    """Its instance gets a record, under its old id."""
    JOINED = "joined"
    """Its instance has a record without a machine, as in a backup from before the machine was made."""
    DUPLICATE = "duplicate"
    """Its instance has another machine; it gets a record under an id of its own, so that nothing deletes it."""
    SURPLUS = "surplus"
    """Its instance has a record, and has another machine or is gone; the service adopts or reports it."""
    LEAVING = "leaving"
    """It is being deleted."""
    KNOWN = "known"
    """A record has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMachine:
    """One machine that this installation made."""

    origin: ProviderName
    seen: ProviderInstance
    outcome: RebuildOutcome
    last_attempt: int
    """The number of the last attempt that any machine of its instance shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationRecord:
    """The installation that a database belongs to."""

    own: str
    """The id of its installation."""
    is_blank: bool
    """Whether it has no instances, so that it may be rebuilt as any installation."""


def installations(listed: Iterable[ProviderInstance]) -> Counter[str]:
    """How many machines each installation has in the account."""
    return Counter(origin.installation for seen in listed if (origin := parse_provider_name(seen.name)) is not None)


def choose(record: InstallationRecord, found: Mapping[str, int], wanted: str | None) -> str:
    """The installation to rebuild; raises GoalRefusedError rather than guess."""
    if wanted is not None:
        if not record.is_blank and wanted != record.own:
            raise GoalRefusedError(
                f"the database has instances of installation {record.own}; rebuild {wanted} in an empty one"
            )
        if wanted not in found:
            raise GoalRefusedError(f"no machine was made by installation {wanted}; {_counted(found)}")
        return wanted
    if not record.is_blank or record.own in found or not found:
        return record.own
    if len(found) > 1:
        raise GoalRefusedError(f"{_counted(found)}: say which is yours with --installation MARK")
    return next(iter(found))


def own_machines(
    listed: Iterable[ProviderInstance],
    installation: str,
    records: Mapping[InstanceId, Instance],
    deleting: Collection[ProviderId] = frozenset(),
) -> list[OwnMachine]:
    """
    What is done with each machine of *installation*, in the order of their instances and attempts.

    *records* holds every record that a name or a provider id in the list gives; *deleting* are the machines that a
    delete was sent for.
    """
    known = {i.provider_id for i in records.values() if i.provider_id is not None}
    by_instance: dict[InstanceId, list[tuple[ProviderName, ProviderInstance]]] = {}
    for origin, seen in sorted(made_by(listed, installation), key=_place):
        by_instance.setdefault(origin.instance_id, []).append((origin, seen))
    found: list[OwnMachine] = []
    for instance_id, machines in by_instance.items():
        record = records.get(instance_id)
        free = [each for each in machines if not _is_settled(each[1], known, deleting)]
        kept = max(free, key=preference, default=None)
        for origin, seen in machines:
            outcome = _outcome_of(record, seen, known, deleting, is_kept=kept is not None and seen is kept[1])
            found.append(OwnMachine(origin=origin, seen=seen, outcome=outcome, last_attempt=machines[-1][0].attempt))
    return found


def _place(machine: tuple[ProviderName, ProviderInstance]) -> tuple[str, int, str]:
    origin, seen = machine
    return origin.instance_id, origin.attempt, seen.id


def _is_settled(seen: ProviderInstance, known: Collection[str], deleting: Collection[str]) -> bool:
    return seen.id in known or seen.id in deleting or seen.sighting in GOING


def _outcome_of(
    record: Instance | None, seen: ProviderInstance, known: Collection[str], deleting: Collection[str], *, is_kept: bool
) -> RebuildOutcome:
    if seen.id in known:
        return RebuildOutcome.KNOWN
    if _is_settled(seen, known, deleting):
        return RebuildOutcome.LEAVING
    if record is not None and (record.provider_id is not None or record.phase is Phase.TERMINATED):
        return RebuildOutcome.SURPLUS
    if not is_kept:
        return RebuildOutcome.DUPLICATE
    return RebuildOutcome.REBUILT if record is None else RebuildOutcome.JOINED


def _counted(found: Mapping[str, int]) -> str:
    if not found:
        return "the account has no machines of any Corral"
    each = ", ".join(f"{installation} ({count})" for installation, count in sorted(found.items()))
    return f"the account has machines of {'these installations' if len(found) > 1 else 'this installation'}: {each}"
