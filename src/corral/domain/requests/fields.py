"""
Reading the fields of a request: every rule broken is noted, and all are told at once.

A number may be sent as a numeric string, a field sent as null counts as left out, and unknown fields are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import TypeVar

from corral.domain.errors import FieldProblem

LONGEST_NAME = 100

_LONGEST_SHOWN = 200
"""Characters of a wrong value that are repeated to the caller."""
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)

T = TypeVar("T")

NO_OBJECT = "must be a JSON object"


class InvalidFieldError(ValueError):
    """A value breaks the rule of its field; the message says the rule."""


class FieldReader:
    """Fields that are read one by one; what is wrong with them is noted and reading goes on."""

    def __init__(self, raw: Mapping[str, object], prefix: str = "") -> None:
        self.raw = raw
        self.problems: list[FieldProblem] = []
        self._prefix = prefix

    def need(self, name: str, code: str, read: Callable[[object], T], placeholder: T) -> T:
        """A field that must be there."""
        if self.raw.get(name) is None:
            self._note(name, code, "is required", shows_value=False)
        return self.take(name, code, read, placeholder)

    def take(self, name: str, code: str, read: Callable[[object], T], default: T, *, shows_value: bool = True) -> T:
        """A field that may be left out."""
        value = self.raw.get(name)
        if value is None:
            return default
        try:
            return read(value)
        except InvalidFieldError as error:
            self._note(name, code, str(error), value, shows_value=shows_value and _is_showable(value))
            return default

    def part(self, read: Callable[[], T | tuple[FieldProblem, ...]], default: T) -> T:
        """A field with fields of its own."""
        found = read()
        if not isinstance(found, tuple):
            return found
        self.problems.extend(found)
        return default

    def _note(self, name: str, code: str, message: str, value: object = None, *, shows_value: bool) -> None:
        shown = value if shows_value else None
        problem = FieldProblem(
            field=self._prefix + name, code=code, message=message, value=shown, shows_value=shows_value
        )
        self.problems.append(problem)


def _is_showable(value: object) -> bool:
    """Whether repeating *value* is cheap and tells no more than the field itself."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_SHOWN
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= 2**53)


def any_number(value: object) -> Decimal:
    """The number *value* is or writes; true and false are none."""
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


@cache
def whole_number(least: int, most: int) -> Callable[[object], int]:
    """A whole number within bounds."""
    rule = f"must be a whole number between {least} and {most}"

    def read(value: object) -> int:
        try:
            number = any_number(value)
        except InvalidFieldError:
            raise InvalidFieldError(rule) from None
        # The range first: a number beyond it may be too long to be worth making whole.
        if not least <= number <= most or number != number.to_integral_value():
            raise InvalidFieldError(rule)
        return int(number)

    return read


def any_text(value: object) -> str:
    """Any string."""
    if not isinstance(value, str):
        raise InvalidFieldError("must be a string")
    return value


@cache
def one_line(longest: int) -> Callable[[object], str]:
    """Printable characters only: others cannot be stored, or hide what a text says."""

    def read(value: object) -> str:
        text = any_text(value).strip()
        if not 1 <= len(text) <= longest or not text.isprintable():
            raise InvalidFieldError(f"must have 1 to {longest} printable characters")
        return text

    return read


def instance_name(value: object) -> str:
    """A name that Corral gives."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidFieldError(f"must have 1 to {LONGEST_NAME} characters out of A-Z, a-z, 0-9, _ and -")
    return value


def yes_or_no(value: object) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise InvalidFieldError("must be true or false")
    return value
