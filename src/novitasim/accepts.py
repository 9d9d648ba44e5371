"""
What a setting accepts: readers that turn text or JSON into a value, or refuse it.

Each reader takes both forms, because a setting arrives from the command line (text) and over HTTP (JSON). A reader
raises ValueError; its caller knows the setting's name and says what is accepted.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

_GUEST = r"healthy|login|gateway_200|long_page|refused|hang|slow:\d+(\.\d+)?|status:[1-5]\d\d"


@dataclass(frozen=True, slots=True)
class Accepts:
    """A reader and the words that describe what it takes."""

    words: str
    read: Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Span:
    """A duration in seconds that is drawn each time; fixed when both ends are equal."""

    low: float
    high: float

    def draw(self, rng: Random) -> float:
        """One duration of this span."""
        return self.low if self.low == self.high else rng.uniform(self.low, self.high)

    def __str__(self) -> str:
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g}-{self.high:g}"


def setting(default: object, accepts: Accepts, means: str) -> Any:
    """A field of the settings: its default, what it accepts and what it means."""
    return dataclasses.field(default=default, metadata={"accepts": accepts, "means": means})


def choice(*values: str) -> Accepts:
    """One of *values*."""

    def read(raw: object) -> str:
        text = str(raw)
        if text not in values:
            raise ValueError(text)
        return text

    return Accepts(" | ".join(values), read)


def whole(low: int = 0, high: int | None = None) -> Accepts:
    """A whole number from *low* to *high*."""

    def read(raw: object) -> int:
        number = _whole(raw)
        if number < low or (high is not None and number > high):
            raise ValueError(raw)
        return number

    return Accepts(f"whole number >= {low}" if high is None else f"whole number {low} to {high}", read)


def one_of(*values: int) -> Accepts:
    """One of a few numbers."""

    def read(raw: object) -> int:
        number = _whole(raw)
        if number not in values:
            raise ValueError(raw)
        return number

    return Accepts(" | ".join(str(value) for value in values), read)


def seconds() -> Accepts:
    """A number of seconds, fractions allowed."""
    return Accepts("number >= 0", _read_number)


def yes_no() -> Accepts:
    """A truth value."""
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

    def read(raw: object) -> bool:
        text = str(raw).lower()
        if text not in words:
            raise ValueError(raw)
        return words[text]

    return Accepts("true | false", read)


def span() -> Accepts:
    """A number of seconds, or a range that is drawn from."""

    def read(raw: object) -> Span:
        if isinstance(raw, str) and "-" in raw:
            low, high = (_read_number(part) for part in raw.split("-", 1))
            if low > high:
                raise ValueError(raw)
            return Span(low, high)
        fixed = _read_number(raw)
        return Span(fixed, fixed)

    return Accepts("seconds, or a range such as 1-3", read)


def text(words: str, pattern: str) -> Accepts:
    """Text that wholly matches *pattern*."""
    compiled = re.compile(pattern)

    def read(raw: object) -> str:
        if not isinstance(raw, str) or not compiled.fullmatch(raw):
            raise ValueError(raw)
        return raw

    return Accepts(words, read)


def guest() -> Accepts:
    """How a workload answers."""
    return text("healthy | login | gateway_200 | long_page | refused | hang | slow:SECONDS | status:CODE", _GUEST)


def guest_rules() -> Accepts:
    """How workloads answer, by the names of their instances."""
    return text("REGEX=BEHAVIOUR, several joined by ;", rf"|.+=({_GUEST})(;.+=({_GUEST}))*")


def log_stream() -> Accepts:
    """How log streams behave."""
    return text(
        "normal | cut | stall | endless | long_line | garbage | "
        "redirect or elsewhere, each also with :URL | status:CODE",
        r"(normal|cut|stall|endless|long_line|garbage|status:[1-5]\d\d|(redirect|elsewhere)(:https?://\S+)?)",
    )


def odd_answers() -> Accepts:
    """Fields of answers, and what they are instead."""
    return text(
        "CALL.FIELD=missing or CALL.FIELD=JSON, several joined by ;", r"|[a-z_]+\.\w+=[^;]+(;[a-z_]+\.\w+=[^;]+)*"
    )


def load() -> Accepts:
    """How busy an instance is."""
    return Accepts("varying, or 0 to 100", choice("varying", *map(str, range(101))).read)


def _whole(raw: object) -> int:
    # By way of text, so that true, 1.5 and null are refused like any other word.
    return int(str(raw))


def _read_number(raw: object) -> float:
    number = float(str(raw))
    if not math.isfinite(number) or number < 0:
        raise ValueError(raw)
    return number
