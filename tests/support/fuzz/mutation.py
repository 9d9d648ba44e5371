"""
Changes to an input that single bytes seldom add up to.

A value of another kind in one place of a JSON document, a run of thousands, a key that is not there, bytes that are not
UTF-8. The drivers of a target mix these with changes of their own.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Final

from support.provider.distortion import ODD, part, paths, put, written

MOST_BYTES: Final = 16 * 1024
_ODD_BYTES: Final = (
    b"\xff",
    b"\x00",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\\u0000",
    b"\\ud800",
    b"9",
    b"e9",
    b"-",
)
_RUNS: Final = (2, 10, 300, 5000)


def changed(data: bytes, dice: random.Random) -> bytes:
    """*data* with one thing done to it, as *dice* fall."""
    return dice.choice(_WAYS)(data, dice)[:MOST_BYTES]


def _odd_value(data: bytes, dice: random.Random) -> bytes:
    """The JSON after the first line, or of the whole, with an odd value or none in one place."""
    head, end, body = data.partition(b"\n")
    for before, tried in ((head + end, body), (b"", data)):
        try:
            tree = json.loads(tried)
        except (ValueError, RecursionError):
            continue
        path = dice.choice(paths(tree))
        if path and isinstance(path[-1], str) and dice.random() < 0.2:
            kept = {key: value for key, value in part(tree, path[:-1]).items() if key != path[-1]}
            return before + written(put(tree, path[:-1], kept), plain=False)
        return before + written(put(tree, path, dice.choice(ODD)), plain=dice.random() < 0.5)
    return _odd_bytes(data, dice)


def _odd_bytes(data: bytes, dice: random.Random) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + dice.choice(_ODD_BYTES) + data[at + dice.randint(0, 1) :]


def _any_byte(data: bytes, dice: random.Random) -> bytes:
    at = dice.randint(0, len(data))
    return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]


def _run(data: bytes, dice: random.Random) -> bytes:
    """A few bytes again and again."""
    at = dice.randint(0, len(data))
    until = at + dice.choice((1, 1, 1, 2, 5, 30))
    return data[:at] + data[at:until] * dice.choice(_RUNS) + data[until:]


def _cut(data: bytes, dice: random.Random) -> bytes:
    at, until = sorted((dice.randint(0, len(data)), dice.randint(0, len(data))))
    return data[:at] + data[until:] if dice.random() < 0.5 else data[:until]


_WAYS: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    _odd_value,
    _odd_value,
    _odd_bytes,
    _any_byte,
    _run,
    _cut,
)
