"""
Fields of request bodies: one `Field` gives both the validation and the published JSON schema.

A number may be sent as a numeric string, a field sent as null counts as left out, and unknown fields are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from dataclasses import fields as attributes_of
from decimal import Decimal
from typing import Any, cast

from corral.domain.errors import FieldProblem

LONGEST_NAME = 100
"""Characters of an instance name."""

_LONGEST_SHOWN = 200
"""Characters of an invalid value that an error message repeats."""
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)

JsonSchema = dict[str, Any]
Problems = tuple[FieldProblem, ...]


class InvalidFieldError(ValueError):
    """A value breaks the rule of its field; the message states the rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How a value is read, raising InvalidFieldError, and the JSON schema of the values that pass."""

    read: Callable[[object], Any]
    schema: JsonSchema


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body."""

    name: str
    code: str
    """The error code of an invalid value."""
    rule: Rule
    description: str
    example: object
    required: bool = False
    secret: bool = False
    """Whether a value may hold a secret, so that no error message repeats it."""


Fields = Mapping[str, Field]
"""The fields of a body, by the attribute of the record that each sets."""


def read_fields(
    raw: object, fields: Fields, *, name: str = "", code: str = "VALIDATION_ERROR"
) -> tuple[dict[str, Any], Problems]:
    """The values that *raw* gives, by attribute, and every problem; *name* is set when *raw* is a part of a body."""
    if not isinstance(raw, dict):
        return {}, (problem(name or "(body)", code, "must be a JSON object"),)
    given = cast("dict[str, object]", raw)
    values: dict[str, Any] = {}
    problems: list[FieldProblem] = []
    prefix = f"{name}." if name else ""
    for attribute, field in fields.items():
        value = given.get(field.name)
        if value is None:
            if field.required:
                problems.append(problem(prefix + field.name, field.code, "is required"))
            continue
        try:
            values[attribute] = field.rule.read(value)
        except InvalidFieldError as error:
            path = prefix + field.name
            if field.secret or not _is_showable(value):
                problems.append(problem(path, field.code, str(error)))
            else:
                problems.append(FieldProblem(field=path, code=field.code, message=str(error), value=value))
    return values, tuple(problems)


def problem(path: str, code: str, message: str) -> FieldProblem:
    """A problem that does not repeat the value."""
    return FieldProblem(field=path, code=code, message=message, shows_value=False)


def body_schema(description: str, fields: Fields, record: type | None = None, **parts: JsonSchema) -> JsonSchema:
    """The JSON schema of a body, with the defaults of *record*; *parts* are its fields that are objects."""
    defaults = {} if record is None else {each.name: each.default for each in attributes_of(record)}
    properties = {
        field.name: {**field.rule.schema, "description": field.description, "examples": [field.example]}
        | ({} if defaults.get(attribute) in {None, MISSING} else {"default": defaults[attribute]})
        for attribute, field in fields.items()
    }
    required = [field.name for field in fields.values() if field.required]
    return {
        "type": "object",
        "description": description,
        "properties": properties | parts,
        "examples": [{field.name: field.example for field in fields.values()}],
        **({"required": required} if required else {}),
    }


def _is_showable(value: object) -> bool:
    """Whether an error message may repeat *value*: short enough, and a number or a string."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_SHOWN
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= 2**53)


def any_number(value: object) -> Decimal:
    """The number that *value* is or spells; booleans are not numbers."""
    match value:
        case bool():
            pass
        case int():
            return Decimal(value)
        case float() if math.isfinite(value):
            return Decimal(repr(value))
        case str() if _NUMBER.fullmatch(value.strip()):
            return Decimal(value.strip())
        case _:
            pass
    raise InvalidFieldError("must be a number")


def whole_number(least: int, most: int) -> Rule:
    """A whole number from *least* to *most*."""
    message = f"must be a whole number between {least} and {most}"

    def read(value: object) -> int:
        try:
            number = any_number(value)
        except InvalidFieldError:
            raise InvalidFieldError(message) from None
        # The range first: converting a number far outside it could take long.
        if not least <= number <= most or number != number.to_integral_value():
            raise InvalidFieldError(message)
        return int(number)

    return Rule(read, {"type": "integer", "minimum": least, "maximum": most})


def any_text(value: object) -> str:
    """Any string."""
    if not isinstance(value, str):
        raise InvalidFieldError("must be a string")
    return value


def one_line(longest: int) -> Rule:
    """Printable characters only: PostgreSQL does not store NUL, and control characters can hide what a text says."""

    def read(value: object) -> str:
        text = any_text(value).strip()
        if not 1 <= len(text) <= longest or not text.isprintable():
            raise InvalidFieldError(f"must have 1 to {longest} printable characters")
        return text

    return Rule(read, {"type": "string", "minLength": 1, "maxLength": longest})


def _instance_name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidFieldError(f"must have 1 to {LONGEST_NAME} characters out of A-Z, a-z, 0-9, _ and -")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidFieldError("must be true or false")
    return value


INSTANCE_NAME = Rule(
    _instance_name, {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": "^[A-Za-z0-9_-]+$"}
)
URL = Rule(any_text, {"type": "string", "minLength": 1, "maxLength": 2048})
"""Any string: whether the address may be called is checked by the caller, because it needs a DNS lookup."""
BOOLEAN = Rule(_boolean, {"type": "boolean"})
