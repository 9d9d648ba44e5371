"""Reads single values of the provider's answers; what cannot be read is absent. `Any` is allowed in this file alone."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

Scalar: TypeAlias = Any
"""A string, number or boolean, as the provider pleases; read it with `text`, `number`, `whole` or `flag`."""

Part: TypeAlias = msgspec.Raw
"""A nested object or array; read it with `one` or `many`."""

MOST_WHOLE: Final = 2**31 - 1
"""Ports, gigabytes, cores and instances are far fewer; and this is what an integer column holds."""
MOST_ID_LENGTH: Final = 255
"""Ids are some twenty characters; a key of an index holds ten times this."""

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What a part may meet when it is read: the whole was passed over it unread, also where it is not UTF-8."""

Shape = TypeVar("Shape", bound=msgspec.Struct)


def text(value: Scalar) -> str:
    """The text of *value*, without NULs, which no database keeps; empty when it is absent or not a scalar."""
    if value is None or isinstance(value, (dict, list, bool)):
        return ""
    return str(value).replace("\0", "").strip()


def identity(value: Scalar) -> str:
    """The text of *value* if it can be an id; empty if it is too long or has control characters."""
    found = text(value)
    return found if len(found) <= MOST_ID_LENGTH and found.isprintable() else ""


def number(value: Scalar) -> float | None:
    """The finite number in *value*, be it a number or a string of one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: Scalar) -> int | None:
    """The whole number in *value*; None when there is none, it has a fraction, or it is larger than any we count."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() and abs(found) <= MOST_WHOLE else None


def total(value: Scalar) -> int | None:
    """How many there are, as *value* says: an absurd number becomes "too many", not None."""
    found = number(value)
    return None if found is None else int(max(-1.0, min(found, float(MOST_WHOLE))))


def flag(value: Scalar) -> bool:
    """Whether *value* says yes."""
    return value is True or text(value).lower() in {"true", "1"}


def one(part: Part, shape: type[Shape]) -> Shape:
    """The object in *part*; an empty one when it is absent or unreadable."""
    try:
        return msgspec.json.decode(part, type=shape)
    except _UNREADABLE:
        return shape()


def many(part: Part, shape: type[Shape]) -> list[Shape]:
    """The objects in *part* that can be read."""
    return [found for found in each(part, shape) if found is not None]


def each(part: Part, shape: type[Shape]) -> list[Shape | None]:
    """The objects in *part*; None for each that cannot be read, and one None if it is no array."""
    try:
        parts = msgspec.json.decode(part, type=list[msgspec.Raw] | None)
    except _UNREADABLE:
        return [None]
    return [_one_or_none(inner, shape) for inner in parts or []]


def _one_or_none(part: Part, shape: type[Shape]) -> Shape | None:
    try:
        return msgspec.json.decode(part, type=shape)
    except _UNREADABLE:
        return None


def texts(part: Part) -> list[str]:
    """The non-empty texts of an array of scalars."""
    try:
        values: list[Any] = msgspec.json.decode(part, type=list[Any])
    except _UNREADABLE:
        return []
    return [found for found in map(text, values) if found]


def wholes(part: Part) -> list[int | None]:
    """The whole numbers of an array of scalars; None for each that is not one, and one None if it is no array."""
    try:
        values: list[Any] | None = msgspec.json.decode(part, type=list[Any] | None)
    except _UNREADABLE:
        return [None]
    return [whole(value) for value in values or []]
