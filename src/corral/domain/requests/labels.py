"""
Labels of instances: their rule, the body that changes them or the protection, and the filter of a list.

A key has no colon, so `key:value` in a filter is read in one way only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from corral.domain.errors import FieldProblem
from corral.domain.instance import Labels
from corral.domain.requests.fields import (
    BOOLEAN,
    Field,
    Fields,
    InvalidFieldError,
    JsonSchema,
    Problems,
    Rule,
    body_schema,
    problem,
    read_fields,
)

MOST_LABELS: Final = 16
LONGEST_LABEL: Final = 63
"""Characters of a key, and of a value."""
_KEY = re.compile(rf"[a-z0-9._/-]{{1,{LONGEST_LABEL}}}")
_KEY_RULE = f"a key has 1 to {LONGEST_LABEL} characters out of a-z, 0-9, '.', '_', '/' and '-'"
_VALUE_RULE = f"a value is one line of at most {LONGEST_LABEL} printable characters"


def _labels(value: object) -> Labels:
    if not isinstance(value, dict):
        raise InvalidFieldError("must be a JSON object of keys with their values")
    given = cast("dict[str, object]", value)
    if len(given) > MOST_LABELS:
        raise InvalidFieldError(f"must have at most {MOST_LABELS} labels")
    return tuple((_key(key), _value(given[key])) for key in sorted(given))


def is_label_key(text: str) -> bool:
    """Whether *text* may be the key of a label."""
    return _KEY.fullmatch(text) is not None


def _key(text: str) -> str:
    if not is_label_key(text):
        raise InvalidFieldError(_KEY_RULE)
    return text


def _value(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_LABEL or not value.isprintable():
        raise InvalidFieldError(_VALUE_RULE)
    return value


LABELS = Field(
    "labels",
    "INVALID_LABELS",
    Rule(
        _labels,
        {
            "type": "object",
            "maxProperties": MOST_LABELS,
            "propertyNames": {"pattern": f"^[a-z0-9._/-]{{1,{LONGEST_LABEL}}}$"},
            "additionalProperties": {"type": "string", "maxLength": LONGEST_LABEL},
        },
    ),
    "Keys and values to sort instances by; lists can be filtered by them.",
    {"team": "vision"},
)
PROTECTED = Field(
    "protected",
    "INVALID_PROTECTED",
    BOOLEAN,
    "Whether a budget that is spent leaves it running.",
    False,
)
_CHANGE_FIELDS: Fields = {
    "labels": Field(LABELS.name, LABELS.code, LABELS.rule, "All labels it is to have: the others go.", LABELS.example),
    "protected": PROTECTED,
}
CHANGE_BODY: JsonSchema = {
    **body_schema("Only what is given changes; unknown fields are ignored.", _CHANGE_FIELDS),
    "anyOf": [{"required": ["labels"]}, {"required": ["protected"]}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceChange:
    """What is changed of an instance without doing anything to its machine; None: nothing."""

    labels: Labels | None = None
    protected: bool | None = None


def read_instance_change(raw: object) -> InstanceChange | Problems:
    """The change in *raw*, a decoded JSON body; or every problem with it: also that it names nothing to change."""
    values, problems = read_fields(raw, _CHANGE_FIELDS)
    if not values and not problems:
        return (problem("labels", LABELS.code, "is required, unless protected is given"),)
    return problems or InstanceChange(**values)


def read_label(key: str, value: str) -> tuple[str, str]:
    """One label; raises InvalidFieldError."""
    return _key(key), _value(value)


def read_label_filter(texts: Sequence[str]) -> tuple[Labels, tuple[str, ...], Problems]:
    """
    The labels and the keys that a list is filtered by, and every problem with them.

    A text is `key:value`, or a key alone, which stands for any value. One key with two values matches no instance.
    """
    labels: set[tuple[str, str]] = set()
    keys: set[str] = set()
    problems: list[FieldProblem] = []
    for text in texts:
        key, colon, value = text.partition(":")
        try:
            if colon:
                labels.add((_key(key), _value(value)))
            else:
                keys.add(_key(key))
        except InvalidFieldError as error:
            problems.append(problem("label", "INVALID_QUERY", f"must be key or key:value: {error}"))
    if len(texts) > MOST_LABELS:
        problems.append(problem("label", "INVALID_QUERY", f"must be given at most {MOST_LABELS} times"))
    return tuple(sorted(labels)), tuple(sorted(keys)), tuple(problems)
