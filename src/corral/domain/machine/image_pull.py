"""
How far the pull of an image is, as the lines of the system log show it. Pure; never raises.

The log has a line for each change of each layer, in the words of docker: `a1b2c3d4e5f6: Downloading [> ] 12.3MB/345MB`.
The last line of a layer counts. The percentage may go down: a layer may become known late, or be downloaded again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

MOST_LAYERS: Final = 1000
"""An image has at most 127; what names more is not a pull."""
LONGEST_SHOWN: Final = 200
ALMOST: Final = 99.0
"""The most that is shown before the end: layers are unpacked after the download."""

_LAYER: Final = re.compile(
    r"(?:^|\s)([0-9a-f]{12,64}): (Pulling fs layer|Waiting|Retrying|Downloading|Verifying|Download complete|Extracting"
    r"|Pull complete|Already exists)(.*)"
)
_NUMBER: Final = r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([kKMGT]?i?B)"
_AMOUNT: Final = re.compile(f"{_NUMBER} ?/ ?{_NUMBER}")
_BEGIN: Final = re.compile(r"(?:^|\s)\S*: ?Pulling from |(?:^|\s)Pulling image|(?:^|\s)Pulling from ")
_END: Final = re.compile(r"(?:^|\s)(?:Digest: |Status: (?:Downloaded newer|Image is up to date))")
_UNITS: Final[Mapping[str, int]] = {
    f"{letter}{inner}B": (1024 if inner else 1000) ** power
    for power, letters in enumerate(("", "kK", "M", "G", "T"))
    for letter in letters or ("",)
    for inner in (("", "i") if power else ("",))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """How far a pull is."""

    pulling: bool
    layers: int
    layers_complete: int
    bytes_done: int
    bytes_total: int
    percent: float | None
    line: str
    """The last line about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    done: int = 0
    total: int = 0
    is_complete: bool = False
    is_sized: bool = False
    """Whether its size counts: a layer that was there already has none."""


def pull_progress(log: str) -> PullProgress:
    """The last pull in *log*; without one it is not pulling, and the percentage is unknown."""
    layers: dict[str, _Layer] = {}
    shown, has_ended = "", False
    for line in log.splitlines():
        found = _LAYER.search(line)
        if found is not None:
            if found[1] in layers or len(layers) < MOST_LAYERS:
                layers[found[1]] = _after(layers.get(found[1], _Layer()), found[2], found[3])
            has_ended = False
        elif _END.search(line):
            has_ended = True
        elif _BEGIN.search(line):
            layers, has_ended = {}, False
        else:
            continue
        shown = line.strip()[:LONGEST_SHOWN]
    return _progress(list(layers.values()), shown, has_ended=has_ended)


def _progress(layers: list[_Layer], line: str, *, has_ended: bool) -> PullProgress:
    sized = [layer for layer in layers if layer.is_sized]
    done, total = sum(layer.done for layer in sized), sum(layer.total for layer in sized)
    return PullProgress(
        pulling=bool(line) and not has_ended,
        layers=len(layers),
        layers_complete=sum(layer.is_complete for layer in layers),
        bytes_done=done,
        bytes_total=total,
        percent=100.0 if has_ended else _percent(layers, done, total),
        line=line,
    )


def _percent(layers: list[_Layer], done: int, total: int) -> float | None:
    """By bytes; a layer of unknown size counts as one of average size. By layers while no size is known."""
    if not layers:
        return None
    sized = sum(layer.is_sized for layer in layers)
    unsized = sum(not layer.is_sized and not layer.is_complete for layer in layers)
    share = done / (total + unsized * total / sized) if total else _share_complete(layers)
    return round(min(100 * share, ALMOST), 1)


def _share_complete(layers: list[_Layer]) -> float:
    return sum(layer.is_complete for layer in layers) / len(layers)


def _after(layer: _Layer, state: str, rest: str) -> _Layer:
    """*layer* after a line that gives its *state*."""
    amount = _AMOUNT.search(rest)
    if amount is not None:
        total = _bytes(amount[3], amount[4])
        is_loaded = state == "Extracting"
        layer = replace(layer, done=total if is_loaded else min(_bytes(amount[1], amount[2]), total), total=total)
        return replace(layer, is_sized=total > 0, is_complete=False)
    if state in {"Pull complete", "Already exists"}:
        return replace(layer, done=layer.total, is_complete=True)
    if state in {"Download complete", "Verifying", "Extracting"}:
        return replace(layer, done=layer.total)
    return replace(layer, done=0) if state == "Retrying" else layer


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS.get(unit, 1))
