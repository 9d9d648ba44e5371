"""What holds for everything that is made of hostile bytes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

import msgspec

MOST_INT = 2**31 - 1
MOST_MICRO_USD = 2**63 - 1
"""What the columns hold that such numbers go into."""
LONGEST_MESSAGE: Final = 4000
"""Characters of an error, which is logged, kept and shown; a few sentences, and the names in them."""
SECRET_LENGTH: Final = 6
"""A secret shorter than this is in many texts by chance."""


def flaws(found: object, at: str = "it") -> list[str]:
    """What of *found* could not be kept, sent on or shown."""
    if isinstance(found, Enum | bool | datetime | timedelta | None):
        return []
    if isinstance(found, float | Decimal):
        return [] if math.isfinite(found) else [f"{at} {found}"]
    if isinstance(found, str):
        return [f"{at} {found[:20]!r}"] if "\0" in found or any("\ud800" <= c <= "\udfff" for c in found) else []
    if isinstance(found, int):
        most = MOST_MICRO_USD if "micro_usd" in at else MOST_INT
        return [f"{at} {found}"] if abs(found) > most else []
    if isinstance(found, tuple | list | frozenset):
        return [flaw for part in found for flaw in flaws(part, at)]
    assert dataclasses.is_dataclass(found), found
    return [flaw for f in dataclasses.fields(found) for flaw in flaws(getattr(found, f.name), f.name)]


def keeps(found: Any) -> None:
    """*found* can be written down, and read again as the same."""
    assert flaws(found) == []
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


def is_reported_well(error: Exception, secrets: Iterable[str] = (), *, begins: str = "") -> None:
    """The text of *error*, and what it says beside it, is short enough to be shown and gives no secret away."""
    beside = getattr(error, "details", {}), getattr(error, "problems", ())
    reported = f"{error} {json.dumps(beside, default=str)}"
    assert reported.startswith(begins), f"an error that does not say where: {reported[:100]}"
    assert len(reported) <= LONGEST_MESSAGE, f"an error of {len(reported)} characters: {reported[:100]}"
    for secret in secrets:
        assert secret not in reported, f"a secret is reported: {reported[:200]}"


def hidden(tree: Any, *places: str) -> list[str]:
    """The texts at *places*, keys of objects anywhere in *tree*, that nothing else in it repeats."""
    secrets: list[str] = []

    def without(part: Any) -> Any:
        if isinstance(part, dict):
            secrets.extend(value for key, value in part.items() if key in places and isinstance(value, str))
            return {key: without(value) for key, value in part.items() if key not in places}
        return [without(inner) for inner in part] if isinstance(part, list) else part

    rest = json.dumps(without(tree), ensure_ascii=False)
    return [secret for secret in secrets if len(secret) >= SECRET_LENGTH and secret not in rest]
