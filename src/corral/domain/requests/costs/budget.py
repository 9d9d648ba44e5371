"""The body of a request that sets a budget, and its name in the path: their rules, read with all problems at once."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final, cast

from corral.domain.access import is_user_name
from corral.domain.budgets.budget import EVERYTHING, Budget, BudgetPeriod, LimitAction, key_scope, label_scope
from corral.domain.placement.pricing import micro_usd
from corral.domain.requests.fields import (
    Field,
    Fields,
    InvalidFieldError,
    Problems,
    Rule,
    any_number,
    body_schema,
    problem,
    read_fields,
)
from corral.domain.requests.labels import read_label

MOST_USD: Final = Decimal(1_000_000_000)
"""Far above any account, and small enough for the columns that store it."""
LEAST_USD: Final = Decimal("0.000001")
MOST_THRESHOLDS: Final = 10
MOST_THRESHOLD: Final = Decimal(10)
NAME_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
_NAME = re.compile(NAME_PATTERN.strip("^$"))
_NAME_RULE: Final = "must have 1 to 63 letters, digits, '_', '-' and '.', and begin with a letter or digit"
_SCOPE_RULE: Final = "must be all, label:KEY=VALUE or key:NAME"


def _scope(value: object) -> str:
    kind, _, named = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == EVERYTHING and value == EVERYTHING:
        return EVERYTHING
    if kind == "key" and is_user_name(named):
        return key_scope(named)
    if kind == "label" and "=" in named:
        key, _, text = named.partition("=")
        try:
            return label_scope(*read_label(key, text))
        except InvalidFieldError as error:
            raise InvalidFieldError(f"{_SCOPE_RULE}: {error}") from None
    raise InvalidFieldError(_SCOPE_RULE)


def _period(value: object) -> BudgetPeriod:
    if not isinstance(value, str) or value not in set(BudgetPeriod):
        raise InvalidFieldError(f"must be one of {', '.join(BudgetPeriod)}")
    return BudgetPeriod(value)


def _on_limit(value: object) -> LimitAction:
    if not isinstance(value, str) or value not in set(LimitAction):
        raise InvalidFieldError(f"must be one of {', '.join(LimitAction)}")
    return LimitAction(value)


def _limit(value: object) -> int:
    number = any_number(value)
    if not LEAST_USD <= number <= MOST_USD:
        raise InvalidFieldError(f"must be more than 0 and at most {MOST_USD} USD")
    return micro_usd(number)


def _thresholds(value: object) -> tuple[Decimal, ...]:
    rule = f"must be a list of at most {MOST_THRESHOLDS} numbers above 0, up to {MOST_THRESHOLD}: parts of the limit"
    listed = cast("list[object]", value) if isinstance(value, list) else None
    if listed is None or len(listed) > MOST_THRESHOLDS:
        raise InvalidFieldError(rule)
    try:
        numbers = {any_number(each) for each in listed}
    except InvalidFieldError:
        raise InvalidFieldError(rule) from None
    if not all(Decimal("0.001") <= each <= MOST_THRESHOLD for each in numbers):
        raise InvalidFieldError(rule)
    return tuple(sorted({round(each, 6).normalize() for each in numbers}))


_FIELDS: Fields = {
    "scope": Field(
        "scope",
        "INVALID_SCOPE",
        Rule(_scope, {"type": "string", "pattern": "^(all|label:.+|key:.+)$", "maxLength": 140}),
        "What it counts: `all`, the instances with a label (`label:team=vision`) or of a key or user (`key:olga`).",
        "label:team=vision",
        required=True,
    ),
    "period": Field(
        "period",
        "INVALID_PERIOD",
        Rule(_period, {"type": "string", "enum": list(BudgetPeriod)}),
        "When it begins again from 0, by UTC; `total`: never.",
        "day",
        required=True,
    ),
    "limit_micro_usd": Field(
        "limitUsd",
        "INVALID_LIMIT",
        Rule(_limit, {"type": "number", "exclusiveMinimum": 0, "maximum": float(MOST_USD)}),
        "The most that may be spent in a period, in USD.",
        200,
        required=True,
    ),
    "on_limit": Field(
        "onLimit",
        "INVALID_ON_LIMIT",
        Rule(_on_limit, {"type": "string", "enum": list(LimitAction)}),
        "`refuse` creates and starts that could exceed it; also `stop` machines once it is spent; or only `notify`.",
        "refuse",
    ),
    "thresholds": Field(
        "thresholds",
        "INVALID_THRESHOLDS",
        Rule(
            _thresholds,
            {
                "type": "array",
                "items": {"type": "number", "exclusiveMinimum": 0, "maximum": float(MOST_THRESHOLD)},
                "maxItems": MOST_THRESHOLDS,
            },
        ),
        "Parts of the limit that are reported by an event, once a period each; left out: 0.5, 0.8 and 1.",
        [0.5, 0.8, 1],
    ),
}
DEFAULT_THRESHOLDS: Final = (Decimal("0.5"), Decimal("0.8"), Decimal(1))
BUDGET_BODY: Final = {
    **body_schema("A number may be sent as a numeric string; unknown fields are ignored.", _FIELDS),
}


def is_budget_name(text: str) -> bool:
    """Whether a budget can have that name; PostgreSQL cannot even be asked for one with a NUL in it."""
    return _NAME.fullmatch(text) is not None


def read_budget(name: str, raw: object) -> Budget | Problems:
    """The budget called *name* in *raw*, a decoded JSON body; or every problem with both."""
    values: dict[str, Any]
    values, problems = read_fields(raw, _FIELDS)
    if not is_budget_name(name):
        problems = (problem("name", "INVALID_BUDGET_NAME", _NAME_RULE), *problems)
    values.setdefault("thresholds", DEFAULT_THRESHOLDS)
    return problems or Budget(name=name, **values)
