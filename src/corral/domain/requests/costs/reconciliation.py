"""Reading the day in a request about reconciliations."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

from corral.domain.costs.reconciled_days import yesterday
from corral.domain.requests.fields import (
    Field,
    InvalidFieldError,
    JsonSchema,
    Problems,
    Rule,
    body_schema,
    problem,
    read_fields,
)

DAY_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}$"
_CODE: Final = "INVALID_DAY"
_FORM: Final = "must be a day such as 2026-11-17"
_DESCRIPTION: Final = "The day in UTC; yesterday when left out. It must be over."


def read_day(value: object) -> date:
    """The day in *value*; raises InvalidFieldError."""
    try:
        found = date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None or found.isoformat() != value or found.year < 2000:  # noqa: PLR2004  # before any provider
        raise InvalidFieldError(_FORM)
    return found


_DAY: Final = Field("day", _CODE, Rule(read_day, {"type": "string", "format": "date"}), _DESCRIPTION, "2030-01-01")
RECONCILE_BODY: Final[JsonSchema] = body_schema("May be left out.", {"day": _DAY})


def read_reconcile_request(raw: object, now: datetime) -> date | Problems:
    """The day that *raw*, a decoded JSON body, asks for, or every problem with it."""
    values, problems = read_fields(raw, {"day": _DAY})
    if problems:
        return problems
    day: date = values.get("day") or yesterday(now)
    if day > yesterday(now):
        return (problem("day", _CODE, "must be over: the bill of a day is complete only then"),)
    return day
