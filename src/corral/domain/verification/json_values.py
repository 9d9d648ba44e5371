"""Reads any JSON without trust: the kind of a value, its number, its parts, and what of it may be shown."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, cast

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z_]{0,39}")


class Kind(StrEnum):
    """The kind of JSON value that a field has."""

    TEXT = "text"
    NUMERIC = "a number, or text of one"
    WHOLE_TEXT = "text of a whole number"
    FLAG = "true or false"
    ARRAY = "an array"
    OBJECT = "an object"


def kind_of(value: object) -> str:
    """The name of the JSON type of *value*."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "an array"
        case _:
            return "an object"


def fits(value: object, kind: Kind) -> bool:
    """Whether *value* is of *kind*."""
    match kind:
        case Kind.TEXT:
            return isinstance(value, str)
        case Kind.NUMERIC:
            return number(value) is not None
        case Kind.WHOLE_TEXT:
            return isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value) is not None
        case Kind.FLAG:
            return isinstance(value, bool)
        case Kind.ARRAY:
            return isinstance(value, list)
        case Kind.OBJECT:
            return isinstance(value, dict)


def number(value: object) -> float | None:
    """The finite number in *value*, be it a number or text of one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def mapping(value: object) -> Mapping[str, object]:
    """*value* if it is an object, else an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def array(value: object) -> Sequence[object]:
    """*value* if it is an array, else an empty one."""
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def objects(value: object) -> list[Mapping[str, object]]:
    """The objects in the array *value*; none if it is not an array."""
    return [mapping(each) for each in array(value) if isinstance(each, dict)]


def text(value: object) -> str:
    """*value* if it is text, else an empty text."""
    return value if isinstance(value, str) else ""


def word(value: object) -> str:
    """*value* as a report may show it: a single word of letters as it is, of anything else only its kind."""
    if isinstance(value, str):
        return f"`{value}`" if _WORD.fullmatch(value) else "an empty text" if not value else "other text"
    return kind_of(value)


def wrong_fields(items: Sequence[Mapping[str, object]], fields: Mapping[str, Kind]) -> list[str]:
    """What is wrong with *fields* in *items*, in our words, each once."""
    found: dict[str, None] = {}
    for item in items:
        for name, kind in fields.items():
            if name not in item:
                found[f"`{name}` is missing"] = None
            elif not fits(item[name], kind):
                found[f"`{name}` is {kind_of(item[name])}, not {kind.value}"] = None
    return list(found)
