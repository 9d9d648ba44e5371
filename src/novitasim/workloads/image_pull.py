"""
The lines that a container engine writes while it pulls an image, and when.

Layers and sizes derive from the image's name, so one image always has the same. Pure.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

_BAR = 50
_MEGABYTE = 1_000_000
_FEWEST_LAYERS, _MORE_LAYERS = 4, 5
_SMALL_MB, _LARGE_MB = 180, 2600
# All layers download from the first instant on; the last one is complete after this share of the time.
_DOWNLOADED = 0.75
_DOWNLOAD_LINES, _EXTRACT_LINES = 8, 2


class Line(NamedTuple):
    """A line of a log and its instant."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of an image."""

    id: str
    size: int


def layers_of(image: str) -> tuple[Layer, ...]:
    """The layers of an image: a few small ones and one that is most of it."""
    seed = _digest(image)
    count = _FEWEST_LAYERS + seed[0] % _MORE_LAYERS
    largest = seed[1] % count
    sizes = [(1 + seed[2 + number] * _SMALL_MB // 255) * _MEGABYTE for number in range(count)]
    sizes[largest] += (_LARGE_MB // 4 + seed[20] * _LARGE_MB // 255) * _MEGABYTE
    return tuple(Layer(_digest(f"{image}/{number}").hex()[:12], size) for number, size in enumerate(sizes))


def pull_lines(image: str, begin: float, end: float) -> list[Line]:
    """Every line of a pull that takes from *begin* to *end*, in order."""
    name, _, tag = image.rpartition(":") if ":" in image.rpartition("/")[2] else (image, "", "latest")
    layers = layers_of(image)
    takes = end - begin
    lines = [Line(begin, f"{tag}: Pulling from {name.partition('/')[2] or name}")]
    lines += [Line(begin, f"{layer.id}: Pulling fs layer") for layer in layers]
    largest = max(layer.size for layer in layers)
    extracted = begin
    share_left = 1.0 - _DOWNLOADED
    for number, layer in enumerate(layers):
        loaded = begin + takes * _DOWNLOADED * layer.size / largest
        lines += _progress(layer, "Downloading", begin, loaded, _DOWNLOAD_LINES)
        lines += [Line(loaded, f"{layer.id}: Verifying Checksum"), Line(loaded, f"{layer.id}: Download complete")]
        # One layer is extracted after the other, and the time for it ends with the pull.
        starts = max(loaded, extracted)
        latest = begin + takes * (_DOWNLOADED + share_left * (number + 1) / (len(layers) + 1))
        extracted = max(starts, latest)
        lines += _progress(layer, "Extracting", starts, extracted, _EXTRACT_LINES)
        lines.append(Line(extracted, f"{layer.id}: Pull complete"))
    lines.append(Line(end, f"Digest: sha256:{_digest(image).hex()}"))
    lines.append(Line(end, f"Status: Downloaded newer image for {image}"))
    return sorted(lines, key=lambda line: line.at)


def _progress(layer: Layer, word: str, begin: float, end: float, count: int) -> list[Line]:
    shown = []
    for number in range(1, count + 1):
        share = number / count
        filled = int(_BAR * share)
        bar = ("=" * filled + ">" + " " * _BAR)[:_BAR]
        text = f"{layer.id}: {word} [{bar}] {_size(layer.size * share):>8}/{_size(layer.size)}"
        shown.append(Line(begin + (end - begin) * share, text))
    return shown


def _size(count: float) -> str:
    if count >= 1000 * _MEGABYTE:
        return f"{count / (1000 * _MEGABYTE):.4g}GB"
    return f"{count / _MEGABYTE:.4g}MB"


def _digest(words: str) -> bytes:
    return hashlib.blake2b(words.encode(), digest_size=32).digest()
