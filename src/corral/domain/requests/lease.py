"""
Reading the lease in a create request, and the bodies that change and extend it and report a use; all problems at once.

Unlike elsewhere, an unknown field is an error: a misspelt limit would be no limit. Null removes a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as attributes_of
from datetime import datetime, timedelta
from typing import Any, Final, cast

from corral.domain.errors import FieldProblem
from corral.domain.leases.changes import Extension
from corral.domain.leases.durations import spoken
from corral.domain.leases.lease import IdleRule, Lease, Schedule
from corral.domain.records import replace
from corral.domain.requests.fields import Fields, Problems, problem, read_fields
from corral.domain.requests.lease_fields import (
    EXTEND_FIELDS,
    IDLE_FIELDS,
    INVALID_LEASE,
    LAST_USED_FIELDS,
    LEASE_FIELDS,
    SCHEDULE_FIELDS,
)

_PARTS: Final[Mapping[str, Fields]] = {"idle": IDLE_FIELDS, "schedule": SCHEDULE_FIELDS}
_RECORDS: Final[Mapping[str, type]] = {"idle": IdleRule, "schedule": Schedule}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDefaults:
    """The settings that apply where a request says nothing about a lease, and the ceiling of what it may say."""

    max_duration: timedelta | None = None
    idle_after: timedelta | None = None
    max_ttl: timedelta | None = None
    """The longest maximum duration; also that of an instance for which none is requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseChange:
    """The parts of a lease that a body gives, by attribute; None removes a part or restores its default."""

    values: Mapping[str, Any]
    """Of `Lease`, without `idle` and `schedule`."""
    parts: Mapping[str, Mapping[str, Any] | None]
    """`idle` and `schedule`, each with the values of its own attributes."""


def read_lease(raw: Mapping[str, Any], defaults: LeaseDefaults) -> tuple[Lease | None, Problems]:
    """The lease that *raw*, a create body, asks for, completed by *defaults*; None if there is none; every problem."""
    given = raw.get("lease", {})
    change = read_lease_change({} if given is None else given)
    if isinstance(change, tuple):
        return None, change
    rule = None if defaults.idle_after is None else IdleRule(after=defaults.idle_after)
    usual = Lease() if given is None else Lease(max_duration=_capped(defaults.max_duration, defaults), idle=rule)
    lease = changed(usual, change, defaults)
    if isinstance(lease, tuple):
        return None, lease
    return (None if lease.is_empty else lease), ()


def read_lease_change(raw: object) -> LeaseChange | Problems:
    """The parts of a lease in *raw*, a decoded JSON body or field; or every problem with them."""
    values, problems = _read(raw, LEASE_FIELDS, "lease", (*_PARTS,))
    parts: dict[str, Mapping[str, Any] | None] = {}
    given = cast("Mapping[str, object]", raw) if isinstance(raw, dict) else {}
    for name, fields in _PARTS.items():
        if given.get(name) is not None:
            parts[name], wrong = _read(given[name], fields, f"lease.{name}")
            problems += wrong
        elif name in given:
            parts[name] = None
    return problems or LeaseChange(values=values, parts=parts)


def changed(lease: Lease | None, change: LeaseChange, defaults: LeaseDefaults) -> Lease | Problems:
    """*lease* with *change*, under the ceiling of *defaults*; or every problem with the result."""
    usual, problems = Lease(), list[FieldProblem]()
    values = {name: getattr(usual, name) if value is None else value for name, value in change.values.items()}
    for name, given in change.parts.items():
        if given is None:
            values[name] = None
            continue
        part, wrong = _merged(None if lease is None else getattr(lease, name), name, given)
        values[name] = part
        problems += wrong
    duration = values.get("max_duration")
    if duration is not None and duration != _capped(duration, defaults):
        most = spoken(defaults.max_ttl or duration)
        problems.append(problem("lease.maxDuration", INVALID_LEASE, f"must be at most {most}: CORRAL_MAX_TTL"))
    if problems:
        return tuple(problems)
    after = replace(lease or usual, **values)
    after = replace(after, max_duration=defaults.max_ttl) if after.max_duration is None else after
    return usual if after.is_empty else after  # what its end would do is not kept for a later lease


def read_extension(raw: object) -> Extension | Problems:
    """The extension in *raw*, a decoded JSON body; or every problem with it."""
    values, problems = read_fields(raw, EXTEND_FIELDS)
    if not problems and len(values) != 1:
        return (problem("by", INVALID_LEASE, "send either by or until"),)
    return problems or Extension(**values)


def read_last_used(raw: object) -> datetime | Problems | None:
    """The time in *raw*, a decoded JSON body, None if it has none; or every problem with it."""
    values, problems = read_fields({} if raw is None else raw, LAST_USED_FIELDS)
    return problems or values.get("at")


def _read(raw: object, fields: Fields, name: str, others: tuple[str, ...] = ()) -> tuple[dict[str, Any], Problems]:
    """As `read_fields`, with None for what is null, and a problem for a field that is neither there nor in *others*."""
    values, problems = read_fields(raw, fields, name=name, code=INVALID_LEASE)
    given = cast("Mapping[str, object]", raw) if isinstance(raw, dict) else {}
    values |= {key: None for key, field in fields.items() if field.name in given and given[field.name] is None}
    known = [*(field.name for field in fields.values()), *others]
    if any(key not in known for key in given):
        problems += (problem(name, INVALID_LEASE, f"has an unknown field; the fields are {', '.join(known)}"),)
    return values, problems


def _merged(present: IdleRule | Schedule | None, name: str, given: Mapping[str, Any]) -> tuple[Any, Problems]:
    """The idle rule or schedule *present* with the values *given*, and every problem with it."""
    kept = {} if present is None else {each.name: getattr(present, each.name) for each in attributes_of(present)}
    values = {key: value for key, value in {**kept, **given}.items() if value is not None}
    if name == "idle" and "after" not in values:
        return None, (problem("lease.idle.after", INVALID_LEASE, "is required"),)
    if name == "schedule" and values.keys().isdisjoint({"stop", "start"}):
        return None, (problem("lease.schedule", INVALID_LEASE, "must have stop or start"),)
    if name == "schedule" and values.get("stop") == values.get("start"):
        return None, (problem("lease.schedule", INVALID_LEASE, "must not stop and start at the same times"),)
    return _RECORDS[name](**values), ()


def _capped(duration: timedelta | None, defaults: LeaseDefaults) -> timedelta | None:
    return duration if duration is None or defaults.max_ttl is None else min(duration, defaults.max_ttl)
