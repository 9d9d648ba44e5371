"""Answers that were valid JSON of the provider, with something changed, to test their readers."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from hypothesis import strategies as st

Path = tuple[str | int, ...]

DEEP: Final = "(here it goes down)"
"""Placeholder for nesting that no writer of JSON would write."""
DEPTH: Final = 3000

ODD: Final[list[Any]] = [
    None, True, False, 0, -1, 2**31, 2**53 + 1, 2**63, 10**30, 1e308, -1e308, 0.5, float("nan"), float("inf"),
    "", " ", "0", "-1", "1e308", "9" * 5000, "NaN", "null", "yes",
    "\0", "a\0b", "\ud800", "\u202eevil", "\U0001f600" * 900,
    "x" * 100_000, "../../etc", "a b&c=d?e#f", "253402300799", "99999999999999999", "-62135596801",
    "http://[::1", "http://host:99999999/", "//", "999.999.999.999:70000", "http://\0/",
    [], {}, [[]], [None], [0, "0", {}], {"0": 0}, [[[[]]]], DEEP,
]  # fmt: skip


def paths(tree: Any, here: Path = ()) -> list[Path]:
    """Where there is something in *tree*, the whole first."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(tree, dict):
        inner = list(tree.items())
    elif isinstance(tree, list):
        inner = list(enumerate(tree))
    return [here, *(path for key, part in inner for path in paths(part, (*here, key)))]


def put(tree: Any, path: Path, value: Any) -> Any:
    """*tree* with *value* at *path*."""
    if not path:
        return value
    changed = copy.copy(tree)
    changed[path[0]] = put(tree[path[0]], path[1:], value)
    return changed


def part(tree: Any, path: Path) -> Any:
    """What is at *path*."""
    for key in path:
        tree = tree[key]
    return tree


def written(tree: Any, *, plain: bool) -> bytes:
    """*tree* as JSON, or nearly; *plain* writes characters as they are, also those that UTF-8 has no form for."""
    text = json.dumps(tree, ensure_ascii=not plain)
    return text.replace(f'"{DEEP}"', "[" * DEPTH + "]" * DEPTH).encode("utf-8", "surrogatepass")


@st.composite
def distorted(draw: st.DrawFn, valid: Any) -> bytes:
    """*valid* with one to three things done to it."""
    tree = valid
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths(tree)))
        old = part(tree, path)
        how = draw(st.sampled_from(["odd", "odd", "odd", "missing", "wrapped", "repeated", "keyed"]))
        if how == "missing" and path and isinstance(path[-1], str):
            changed = {key: kept for key, kept in part(tree, path[:-1]).items() if key != path[-1]}
            tree = put(tree, path[:-1], changed)
        elif how == "repeated" and isinstance(old, list):
            tree = put(tree, path, old * draw(st.sampled_from([0, 2, 300])))
        elif how == "wrapped":
            tree = put(tree, path, [old])
        elif how == "keyed":
            tree = put(tree, path, {"data": old, "": 1})
        else:
            tree = put(tree, path, draw(st.sampled_from(ODD)))
    body = written(tree, plain=draw(st.booleans()))
    spoilt = draw(st.sampled_from(["no", "no", "no", "cut", "bytes"]))
    if spoilt == "cut":
        return body[: draw(st.integers(0, len(body)))]
    if spoilt == "bytes":
        place = draw(st.integers(0, len(body)))
        return body[:place] + draw(st.binary(min_size=1, max_size=4)) + body[place:]
    return body
